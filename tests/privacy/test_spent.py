"""An epsilon in words is never less than it is."""

import pytest

from vesica.privacy import at_most


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [(8.0, "8.000"), (1.23401, "1.235"), (0.0, "0.000"), (0.00012341, "0.000124"), (26.7309, "26.731")],
)
def test_it_is_rounded_up(epsilon: float, said: str) -> None:
    assert at_most(epsilon) == said
    assert float(said) >= epsilon
