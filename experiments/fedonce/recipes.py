"""FedOnce (Wu, Li and He, TBD 2022): guests that are late or absent, Appendix C."""

from collections.abc import Sequence

from vesica.experiment.recipes import Case, Recipe
from vesica.methods import FedOnce

A_DAY = 86_400.0
GUESTS = ("guest-1", "guest-2", "guest-3")
# Without party dropout the fill has no part in training: what it would have learned is zero.
LAGGY = (
    FedOnce(hidden=(128,), fill="zero"),
    FedOnce(hidden=(128,), fill="zero", party_dropout=0.3),
    FedOnce(hidden=(128,), fill="learned", party_dropout=0.3),
)


def laggy(seeds: int) -> Sequence[Case]:
    """Digits in quadrants: none to all of the guests absent in training. `without.py` has them leave later."""
    return [
        Case(method, "mnist", seed, dim=16, wait=A_DAY, absent=GUESTS[:absent])
        for method in LAGGY
        for absent in range(len(GUESTS) + 1)
        for seed in range(seeds)
    ]


RECIPES = {"laggy": Recipe("FedOnce on MNIST quadrants with absent guests", laggy, seeds=3)}
