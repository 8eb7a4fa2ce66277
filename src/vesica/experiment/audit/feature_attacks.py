"""What a party could learn of another's columns from the numbers it was shown of each row, measured on a run."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from vesica.attacks.inversion import Inversion, Pairs
from vesica.attacks.recovery import Recovery, recovery
from vesica.attacks.stand_in import StandIn
from vesica.attacks.view import View
from vesica.data.preparation import Preparation
from vesica.experiment.audit.findings import Finding, Measured, Outcome
from vesica.experiment.audit.transcript import Transcript
from vesica.schema import TableSchema

SHOWN = ("representations", "projections", "columns")  # messages with numbers that follow from a row's columns
TOP = "top."  # before the names of its weights, among all that are averaged
FITTED, FITTED_TO_IMAGES = 1000, 200  # steps; those of images take long
FEWEST = 20  # rows
RESAMPLES = 50
NAMED = 5  # columns
PICTURES = 8
LEAST = 1e-3  # of a share that came back: below it is rounding

MakeUp = Callable[[Pairs], Pairs]


def reconstruct(
    run: Transcript, view: View, inversion: Inversion, *, known: int, seed: int, device: str = "cpu"
) -> Iterator[Outcome]:
    """A sender's columns from what it showed of its rows, and a few rows that are known in full from elsewhere."""
    for sender in (party for party in run.present if party != view.party):
        preparation = run.models[sender].preparation
        for kind in () if preparation is None else SHOWN:
            for times, (rows, shown) in view.by_times(kind, sender=sender).items():
                if preparation is None or len(rows) < FEWEST:
                    few = f"only {len(rows)} rows were shown {often(times)} ({FEWEST} or more would do)"
                    yield f"The {kind} of '{sender}' were not inverted by '{view.party}' where {few}."
                    continue
                order = torch.from_numpy(np.random.default_rng([seed, 3]).permutation(len(rows)))
                mine, others = order.tensor_split([min(known, len(rows) // 2)])
                truth, schema = run.inputs(sender)[rows], preparation.schema
                for helped, make_up in ways_of(run, view, sender, kind, device=device).items():
                    torch.manual_seed(seed)
                    guess = inversion.guess(
                        shown[mine], truth[mine], representations=shown[others], schema=schema, make_up=make_up
                    )
                    measured, columns = came_back(guess, truth[others], truth[mine], preparation, seed=seed)
                    yield Finding(
                        view.party,
                        sender,
                        f"the columns of {len(others)} rows, shown {often(times)},",
                        f"an inverse of the {kind}{helped} ({len(mine)} rows known)",
                        f"{len(mine)} of those rows in full, from elsewhere",
                        "share that came back",
                        measured,
                        detail="" if preparation.image is not None else most_of(columns),
                        pictures=() if preparation.image is None else pictures_of(truth[others], guess),
                    )


def often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def ways_of(run: Transcript, view: View, sender: str, kind: str, *, device: str) -> dict[str, MakeUp | None]:
    """Without help; and where the sender gave the top of its encoder to be averaged, with that."""
    ways: dict[str, MakeUp | None] = {"": None}
    sent = [seen for seen in view.received if seen.sender == sender and seen.kind == "weights"]
    spec = run.models[sender].encoder_spec
    if kind == "representations" and sent and spec is not None:
        weights = sent[-1].message.tensors.items()
        top = {name.removeprefix(TOP): weight for name, weight in weights if name.startswith(TOP)}
        steps = FITTED if isinstance(spec.schema, TableSchema) else FITTED_TO_IMAGES
        ways[", with its encoder's top"] = StandIn(spec, top, steps=steps, device=device).make_up
    return ways


def came_back(
    guess: Tensor, truth: Tensor, known: Tensor, preparation: Preparation, *, seed: int
) -> tuple[Measured, dict[str, float]]:
    """Of all columns alike, and of each by its name; of images as a whole, by channel."""

    def of(rows: Tensor) -> dict[str, float]:
        found = recovery(guess[rows], truth[rows], known=known, schema=preparation.schema)
        return dict(zip(names_of(preparation), shares_of(found), strict=True))

    random = np.random.default_rng([seed, 4])
    drawn = [torch.from_numpy(random.integers(len(truth), size=len(truth))) for _ in range(RESAMPLES)]
    low, high = np.quantile([np.mean(list(of(rows).values())) for rows in drawn], [0.025, 0.975])
    columns = of(torch.arange(len(truth)))
    share = float(np.mean(list(columns.values())))
    return Measured(share, float(low), float(high), 0.0, bool(low > LEAST)), columns


def pictures_of(truth: Tensor, guess: Tensor) -> tuple[tuple[str, str], ...]:
    """Some rows of images beside what came back of them."""
    return tuple((png(unit(t)), png(g)) for t, g in zip(truth[:PICTURES], guess[:PICTURES], strict=True))


def unit(image: Tensor) -> Tensor:
    """As numbers from 0 to 1."""
    return image.float() / 255 if image.dtype == torch.uint8 else image


def png(image: Tensor) -> str:
    """(channels, height, width), from 0 to 1."""
    from PIL import Image

    values = (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(values.squeeze(2) if values.shape[2] == 1 else values).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def shares_of(found: Recovery) -> Sequence[float]:
    """Of each column: 1 all of it, 0 what guessing its mean, or its commonest category, is worth, or less."""
    numbers = [0.0 if error is None else max(0.0, 1 - error) for error in found.numbers]
    codes = [
        max(0.0, (each.right - each.commonest) / (1 - each.commonest)) if each.commonest < 1 else 0.0
        for each in found.codes
    ]
    return [*numbers, *codes]


def names_of(preparation: Preparation) -> list[str]:
    if preparation.image is not None:
        return [f"channel {number}" for number in range(1, preparation.image.channels + 1)]
    numbers = [
        each.column if not part else f"{each.column} ({part + 1})"
        for each in preparation.quantities
        for part in range(each.width)
    ]
    return [*numbers, *(each.column for each in preparation.categories)]


def most_of(columns: dict[str, float]) -> str:
    """Which columns came back most."""
    ranked = sorted(columns.items(), key=lambda item: -item[1])[:NAMED]
    return "Most of all: " + ", ".join(f"{name} {share:.2f}" for name, share in ranked) + "."
