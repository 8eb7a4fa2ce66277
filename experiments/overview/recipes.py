"""Every method of the registry, with its default settings, on four data sets at three overlaps."""

from collections.abc import Callable, Sequence

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import METHODS

OVERLAPS = (250, 1000, 4000)
IMAGES = 6_000  # of 60,000 that every party has, aligned ones among them: pre-training with more would take days


def all_methods(data: str, *, rows: int | None = None) -> Callable[[int], Sequence[Case]]:
    """On a scenario of which every party has so many rows, or all that are there."""

    def cases(seeds: int) -> Sequence[Case]:
        return [
            Case(method(), data, seed, overlap=overlap, draw=None if rows is None else rows - overlap)
            for overlap in OVERLAPS
            for method in METHODS.values()
            for seed in range(seeds)
        ]

    return cases


RECIPES = {
    "credit": Recipe("All methods on credit, two parties", all_methods("credit"), seeds=3),
    "phishing": Recipe("All methods on phishing, ten parties", all_methods("phishing"), seeds=3),
    "mnist": Recipe("All methods on MNIST, a quadrant a party", all_methods("mnist", rows=IMAGES), seeds=3),
    "fashion-mnist-halves": Recipe(
        "All methods on Fashion-MNIST, a half a party", all_methods("fashion-mnist-halves", rows=IMAGES), seeds=3
    ),
}
