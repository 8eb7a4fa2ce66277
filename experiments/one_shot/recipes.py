"""One-shot and few-shot VFL (Sun et al., ICCV 2023): their figures, on the data sets that are at hand."""

from collections.abc import Sequence

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FewShot, SplitNN


def figure6(seeds: int) -> Sequence[Case]:
    """AUC against bytes (Fig. 6) and rounds (Fig. 7) on credit; a few-shot run gives the one-shot result too."""
    return [
        Case(method, "credit-two-guests", seed, overlap=overlap)
        for overlap in (1000, 2000)
        for method in (SplitNN(), FewShot())
        for seed in range(seeds)
    ]


RECIPES = {"figure6": Recipe("One-shot and few-shot VFL on credit: AUC against bytes and rounds", figure6, seeds=5)}
