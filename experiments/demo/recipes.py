"""The demo: every main method on the bundled credit table, 1,000 overlapping rows."""

from collections.abc import Sequence

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FewShot, LocalOnly, Pooled, SplitNN

METHODS = (LocalOnly(), Pooled(), SplitNN(), FewShot())  # few-shot gives one-shot too


def credit(seeds: int) -> Sequence[Case]:
    return [Case(method, "credit", seed, overlap=1000) for method in METHODS for seed in range(seeds)]


RECIPES = {"credit": Recipe("Card default with 1,000 overlapping rows", credit)}
