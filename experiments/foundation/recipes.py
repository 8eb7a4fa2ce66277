"""What the foundation must reach before anything is built on it: SplitNN against pooled data."""

from collections.abc import Sequence

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import Linear, LocalOnly, Pooled, SplitNN


def mnist(seeds: int) -> Sequence[Case]:
    """Digits in quadrants, host and three guests, all 60,000 training rows aligned; the official test rows."""
    method = SplitNN(epochs=12, patience=4, batch_size=128)
    return [Case(method, "mnist", seed) for seed in range(seeds)]


def credit(seeds: int) -> Sequence[Case]:
    """The FATE split with all rows aligned."""
    methods = (LocalOnly(), Linear(), Pooled(), SplitNN())
    return [Case(method, "credit", seed) for method in methods for seed in range(seeds)]


RECIPES = {
    "mnist": Recipe("SplitNN on MNIST quadrants, all rows aligned", mnist, seeds=3),
    "credit": Recipe("SplitNN against pooled data on credit, all rows aligned", credit, seeds=3),
}
