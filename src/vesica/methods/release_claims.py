"""What noise on the guests' representations guarantees and what it does not, in words."""

from __future__ import annotations

from vesica.privacy import Release, at_most, gaussian_epsilon

UNTRAINED = "The encoders are not trained: this covers all that a guest gives the host, and what the host makes of it."
PRIVATE = (
    "It holds for the encoders as they are; their training with DP-SGD has a price of its own, and what both cost "
    "together is stated too."
)
LEARNED = (
    "It holds for the encoders as they are. That these were learned from the same rows is not covered, nor are their "
    "weights, which nobody is sent: so no epsilon is stated for the run as a whole. It holds in full for rows that no "
    "guest learned from, such as test rows and new ones."
)


def noise_claim(release: Release) -> str:
    """Of plain noise, as in section 5.8 of the FedOnce paper."""
    return (
        "Every value of the representations that a guest releases, in training and in every prediction, carries "
        f"Gaussian noise of standard deviation {release.sigma:g}, drawn from the operating system's entropy. The rows "
        "are not clipped, so that it guarantees nothing: no epsilon is stated for it."
    )


def release_claim(release: Release, *, guests: int, delta: float, encoders: str) -> str:
    """Of clipped and noised rows; `encoders` says what the guarantee is worth, by how these came about."""

    def price(releases: int) -> str:
        return at_most(gaussian_epsilon([release.mechanism] * releases, delta))

    together = f", and {price(guests)} for one by each of the {guests} guests together" if guests > 1 else ""
    return (
        f"Each row that a guest releases, in training and in every prediction, is clipped to norm {release.clip:g} and "
        f"carries Gaussian noise of standard deviation {release.sigma:.4g}, drawn from the operating system's entropy: "
        f"differentially private at delta {delta:g}, with epsilon {price(1)} for one release by one guest{together}; "
        "neighbours differ in one person's columns, replaced by any others (the analytic Gaussian mechanism, exact). "
        "A guest draws the noise of a row once per run and keeps the draw: a row that the host names again shows the "
        "same values. Each later prediction of a row, and each other run with it, is one release more: "
        f"epsilon {price(2 * guests)} after the second. {encoders} Not covered: that a person is in the "
        "tables, how columns are prepared (scales, medians, which categories have a code, which columns have gaps; and "
        "so how filters turn them), what the agreement says, and the host's own columns and labels."
    )


def delta_claims(delta: float, *, rows: int, what: str = "record") -> list[str]:
    """Of a delta that is too large, if it is."""
    if delta * rows < 1:
        return []
    return [
        f"A delta of {delta:g} is not below 1 / {rows:,}, one over the aligned rows: to show one person's {what} as it "
        "is would be within it, so that it is too large for any epsilon to mean much. Give a smaller one."
    ]


def total_claim(epsilon: float, delta: float, *, tighter: float) -> str:
    """Of two budgets that one run spends."""
    return (
        f"The weights and the rows that the guests released together: epsilon {at_most(epsilon)} at delta {delta:g} "
        f"by Rényi accounting, {at_most(tighter)} by privacy loss distributions; neighbours differ in one person's "
        "record, left out of every training and any other values in its released rows."
    )
