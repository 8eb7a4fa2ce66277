"""What a person sees."""

from __future__ import annotations

import pytest

from vesica.cli.display import announce, say


@pytest.mark.parametrize("tell", [announce, say])
def test_a_sentence_is_one_line_and_stays_as_it_is(tell: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(tell)
    sentence = f"finished: /runs[old]/{'long' * 30}; another one needs another --run"
    tell(sentence)
    written = capsys.readouterr()
    assert written.out + written.err == sentence + "\n"
