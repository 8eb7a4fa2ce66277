"""Labels from a party's own encoder: model completion (Fu et al., USENIX Security 2022; FedHSSL, section 4.4)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.errors import InputError, nearest
from vesica.nn.augmentations import views_of
from vesica.nn.models import EncoderSpec
from vesica.schema import Schema, TableSchema
from vesica.training.ema import MovingAverage
from vesica.training.self_supervised import self_supervised
from vesica.training.supervised import batches

Style = Literal["frozen", "plain", "mixmatch"]
ROWS_AT_ONCE = 512  # of images through a deep network: more fill a GPU
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # of "frozen": the larger, the less regularised
MIXUP = 0.75  # both parameters of the Beta distribution


@dataclass(frozen=True)
class Completion:
    """Completes a party's encoder with a head of its own, from a few rows whose class it knows.

    "frozen" is a logistic regression on what the encoder gives, as strongly regularised as does best in
    cross-validation on the known rows: with few of them it is often the best. "plain" trains a linear head and the
    encoder on the known rows, for so many `epochs`. "mixmatch" also learns from the party's other rows, in so many
    `steps` (Fu et al.; Berthelot et al., NeurIPS 2019). Both give their last state: whoever does not know the labels
    cannot tell which epoch guesses best.
    """

    style: Style = "frozen"
    epochs: int = 30
    steps: int = 1000
    batch_size: int = 16
    learning_rate: float = 2e-3
    temperature: float = 0.8  # "mixmatch": a lower one makes the guessed classes more certain
    lambda_u: float = 50.0  # "mixmatch": the weight of the other rows, reached in the last step
    ema: float = 0.999  # "mixmatch": of the weights that guess

    def __post_init__(self) -> None:
        if self.style not in get_args(Style):
            raise InputError(f"model completion has no style '{self.style}'{nearest(self.style, get_args(Style))}")
        if min(self.epochs, self.steps, self.batch_size) < 1:
            raise InputError("model completion needs epochs, steps and batch_size of at least 1: change them")

    def guess(
        self, encoder: nn.Module, inputs: Tensor, *, known: Tensor, labels: Tensor, classes: int, schema: Schema
    ) -> Tensor:
        """The probability of each class for each row of `inputs`: (rows, classes).

        `known` are positions in `inputs`, `labels` go with them; `schema` is that of the inputs. `encoder` stays as it
        is. The known rows are among the guessed ones: whoever scores leaves them out.
        """
        _check(inputs, known=known, labels=labels, classes=classes)
        known, labels = known.to(inputs.device), labels.to(inputs.device)
        encoder = copy.deepcopy(encoder).requires_grad_(True)
        if self.style == "frozen":
            return from_features(_predict(encoder, inputs), known=known, labels=labels, classes=classes)
        dim = _predict(encoder, inputs[:1]).shape[1]
        if self.style == "plain":
            model = nn.Sequential(encoder, nn.Linear(dim, classes)).to(inputs.device)
            self._tune(model, inputs[known], labels)
            return _predict(model, inputs).softmax(dim=1)
        head = nn.Sequential(nn.BatchNorm1d(dim), nn.ReLU(), nn.Linear(dim, classes))
        model = nn.Sequential(encoder, head).to(inputs.device)
        average = self._mix(model, MixMatch(inputs, schema, temperature=self.temperature), known=known, labels=labels)
        return _predict(average, inputs).softmax(dim=1)

    def _tune(self, model: nn.Module, rows: Tensor, labels: Tensor) -> None:
        optimiser = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        model.train()
        for _ in range(self.epochs):
            for batch in batches(len(rows), self.batch_size):
                optimiser.zero_grad()
                functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
                optimiser.step()

    def _mix(self, model: nn.Module, mixmatch: MixMatch, *, known: Tensor, labels: Tensor) -> nn.Module:
        optimiser = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        average = MovingAverage(model, decay=self.ema)
        model.train()
        for step in range(1, self.steps + 1):
            some = torch.randint(len(known), (self.batch_size,), device=known.device)
            supervised, unsupervised = mixmatch.losses(model, known[some], labels[some])
            optimiser.zero_grad()
            (supervised + self.lambda_u * step / self.steps * unsupervised).backward()
            optimiser.step()
            average.update()
        return average.module


def from_features(features: Tensor, *, known: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The probability of each class by logistic regression on (rows, numbers), which every row has."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    numbers, truth = features.detach().cpu().double().numpy(), labels.cpu().numpy()
    rows = numbers[known.cpu().numpy()]

    def model(strength: float) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))

    def standing(strength: float) -> float:
        folds = StratifiedKFold(
            min(5, int(np.unique(truth, return_counts=True)[1].min())), shuffle=True, random_state=0
        )
        return float(cross_val_score(model(strength), rows, truth, cv=folds, scoring="neg_log_loss").mean())

    alone = np.unique(truth, return_counts=True)[1].min() < 2  # a class of one row cannot be held out
    best = 0.1 if alone else max(STRENGTHS, key=standing)
    fitted = model(best).fit(rows, truth)
    chances = torch.zeros(len(features), classes, dtype=torch.float64)
    chances[:, torch.from_numpy(fitted.classes_)] = torch.from_numpy(fitted.predict_proba(numbers))
    return chances.to(features)


class MixMatch:
    """The losses of labelled and of other rows: guessed classes, sharpened, and all rows mixed with one another."""

    def __init__(self, inputs: Tensor, schema: Schema, *, temperature: float) -> None:
        self._inputs = inputs
        self._schema = schema
        self._views = views_of(schema, inputs)
        self._temperature = temperature

    def losses(self, model: nn.Module, known: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Of as many other rows as known ones, each in two views. The other rows are any: few of them are known."""
        others = self._inputs[torch.randint(len(self._inputs), known.shape, device=known.device)]
        first, second = self._views.weak(others), self._views.weak(others)
        guessed = self._guessed(model, first, second)
        truth = functional.one_hot(labels, guessed.shape[1]).to(guessed.dtype)
        rows = torch.cat([self._views.weak(self._inputs[known]), first, second])
        targets = torch.cat([truth, guessed, guessed])
        partner = torch.randperm(len(rows), device=rows.device)
        share = torch.distributions.Beta(MIXUP, MIXUP).sample((len(rows),)).to(rows.device)
        share = torch.maximum(share, 1 - share)  # a mixed row is mostly itself: labelled rows stay so
        logits = model(mixed(rows, rows[partner], share=share, schema=self._schema))
        targets = mixed(targets, targets[partner], share=share, schema=None)
        supervised = functional.cross_entropy(logits[: len(known)], targets[: len(known)])
        unsupervised = functional.mse_loss(logits[len(known) :].softmax(dim=1), targets[len(known) :])
        return supervised, unsupervised

    @torch.no_grad()
    def _guessed(self, model: nn.Module, first: Tensor, second: Tensor) -> Tensor:
        """The mean of what the model says of two views, sharpened: (rows, classes)."""
        one, two = model(torch.cat([first, second])).softmax(dim=1).chunk(2)
        sharp: Tensor = ((one + two) / 2) ** (1 / self._temperature)
        return sharp / sharp.sum(dim=1, keepdim=True)


def mixed(rows: Tensor, others: Tensor, *, share: Tensor, schema: Schema | None) -> Tensor:
    """Each row with so much of itself and the rest of another; a category code is the one's or the other's."""
    share = share.reshape(-1, *[1] * (rows.ndim - 1))
    blend = share * rows + (1 - share) * others
    if isinstance(schema, TableSchema) and schema.categories:
        codes = torch.where(torch.rand_like(rows) < share, rows, others)
        blend[:, schema.numeric :] = codes[:, schema.numeric :]
    return blend


def draw_known(labels: Tensor, count: int, *, generator: np.random.Generator) -> Tensor:
    """Positions of `count` rows, as many of each class as its share says but at least one, in ascending order."""
    classes, sizes = np.unique(labels.cpu().numpy(), return_counts=True)
    if not len(classes) <= count <= len(labels):
        raise InputError(
            f"{count} known rows of {len(labels)} rows and {len(classes)} classes cannot be drawn: "
            f"give a count from {len(classes)} to {len(labels)}"
        )
    shares, drawn = sizes * count / len(labels), np.ones(len(classes), dtype=int)
    while drawn.sum() < count:
        drawn[np.argmax(shares - drawn)] += 1
    places = [np.flatnonzero(labels.cpu().numpy() == name) for name in classes]
    chosen = [generator.choice(rows, size, replace=False) for rows, size in zip(places, drawn, strict=True)]
    return torch.from_numpy(np.sort(np.concatenate(chosen))).to(labels.device)


def plain_numbers(inputs: Tensor, schema: Schema) -> Tensor:
    """A party's own columns as they are, (rows, numbers): a category as 0 or 1 for each of its codes."""
    if not isinstance(schema, TableSchema):
        return inputs.flatten(1).float()
    codes = [
        functional.one_hot(column.long(), count)
        for column, count in zip(inputs[:, schema.numeric :].T, schema.categories, strict=True)
    ]
    return torch.cat([inputs[:, : schema.numeric], *codes], dim=1).float()


def pretrained_at_home(
    spec: EncoderSpec, inputs: Tensor, *, steps: int = 300, batch_size: int = 256, width: int = 256
) -> nn.Module:
    """A fresh encoder, trained by SimSiam on a party's own rows: what the party has without the run.

    Completed like the encoder of the run, it says how much of a guess the run is to blame for.
    """
    encoder = spec.build().to(inputs.device)
    self_supervised(
        encoder,
        inputs,
        dim=spec.dim,
        ssl="simsiam",
        views=views_of(spec.schema, inputs, corrupted=0.3),
        steps=steps,
        learning_rate=0.05 * batch_size / 256,
        batch_size=batch_size,
        width=width,
    )
    return encoder


@torch.no_grad()
def _predict(model: nn.Module, inputs: Tensor) -> Tensor:
    model.eval()
    return torch.cat([model(rows).float() for rows in inputs.split(ROWS_AT_ONCE)])


def _check(inputs: Tensor, *, known: Tensor, labels: Tensor, classes: int) -> None:
    if len(known) < 2 or len(labels) != len(known):
        raise InputError(
            f"model completion needs two or more known rows with a label each and got {len(known)} rows and "
            f"{len(labels)} labels: give both"
        )
    if int(known.min()) < 0 or int(known.max()) >= len(inputs):
        raise InputError(f"the known rows are positions 0..{len(inputs) - 1} of the inputs: give such")
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InputError(
            f"the known labels are 0..{classes - 1} and these go from {int(labels.min())} to {int(labels.max())}: "
            "give the number of classes that there are"
        )
