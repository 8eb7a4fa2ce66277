"""Representations without labels: noise as targets, and principal components."""

from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor, nn

from vesica.nn.models import CNN0, MLP, LinearEncoder
from vesica.schema import ImageSchema, TableSchema
from vesica.training import lesson
from vesica.training.lesson import Targets
from vesica.training.resume import Stateful
from vesica.training.unsupervised import noise_as_targets, principal_components

CPU = torch.device("cpu")


class Watch:
    """Looks at the parts of a training before and after each epoch."""

    def __init__(self) -> None:
        self.points: list[Tensor] = []

    def steps(self, total: int, parts: Mapping[str, Stateful]) -> Iterator[int]:
        targets = parts["targets"]
        assert isinstance(targets, Targets)
        self.points.append(targets.points.clone())
        for epoch in range(total):
            yield epoch
            self.points.append(targets.points.clone())


def learn(encoder: nn.Module, rows: Tensor, **changes) -> Watch:
    watch = Watch()
    settings = {
        "dim": 2,
        "view": None,
        "epochs": 6,
        "frequency": 3,
        "batch_size": 16,
        "learning_rate": 0.01,
        "weight_decay": 0.0,
    } | changes
    noise_as_targets(encoder, rows, resume=watch, **settings)
    return watch


def in_order(points: Tensor) -> list[list[float]]:
    return sorted(points.tolist())


def test_only_every_third_epoch_hands_points_on_and_none_is_lost() -> None:
    torch.manual_seed(0)
    watch = learn(MLP(3, (16,), 2), torch.randn(50, 3))
    moved = [not torch.equal(before, after) for before, after in zip(watch.points, watch.points[1:], strict=False)]
    assert moved == [False, False, True, False, False, True]
    assert in_order(watch.points[-1]) == in_order(watch.points[0])


def test_an_assignment_counts_at_once_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of the step that assigns already has the new targets."""
    used: list[Tensor] = []
    distance = lesson.distance
    monkeypatch.setattr(lesson, "distance", lambda out, to: used.append(to.clone()) or distance(out, to))
    torch.manual_seed(0)
    watch = learn(MLP(3, (16,), 2), torch.randn(16, 3), epochs=1, frequency=1)
    assert in_order(used[0]) == in_order(watch.points[0])
    kept = {tuple(point) for point in watch.points[1].tolist()}
    assert kept == {tuple(point) for point in used[0].tolist()}
    assert not torch.equal(watch.points[0], watch.points[1])


def test_outputs_come_to_the_points_and_nearer_with_assignment() -> None:
    def loss(frequency: int) -> float:
        torch.manual_seed(0)
        rows, encoder = torch.randn(200, 4), MLP(4, (32,), 2)
        watch = learn(encoder, rows, epochs=30, frequency=frequency)
        return (encoder(rows) - watch.points[-1]).square().sum(dim=1).mean().item()

    fixed, moving = loss(1000), loss(1)
    assert moving < 0.5 * fixed


def test_a_view_is_what_the_encoder_sees() -> None:
    seen: list[Tensor] = []

    class Notes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, rows: Tensor) -> Tensor:
            seen.append(rows)
            out: Tensor = self.linear(rows)
            return out

    learn(Notes(), torch.ones(20, 3), view=lambda rows: 5 * rows, epochs=1)
    assert {value for rows in seen for value in rows.unique().tolist()} == {5.0}


def test_images_learn() -> None:
    torch.manual_seed(0)
    schema = ImageSchema(1, 8, 8, (0.5,), (0.5,))
    encoder = CNN0(schema, 2)
    before = [parameter.clone() for parameter in encoder.parameters()]
    learn(encoder, torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8), epochs=1)
    assert all(
        not torch.equal(old, new) and new.is_contiguous() for old, new in zip(before, encoder.parameters(), strict=True)
    )


def whitened(outputs: Tensor, components: int) -> None:
    outputs = outputs[:, :components].double()
    torch.testing.assert_close(outputs.mean(dim=0), torch.zeros(components).double(), atol=1e-4, rtol=0)
    covariance = torch.cov(outputs.T, correction=0).reshape(components, components)
    torch.testing.assert_close(covariance, torch.eye(components).double(), atol=1e-3, rtol=0)


def test_principal_components_of_numbers_are_those_of_a_singular_value_decomposition() -> None:
    torch.manual_seed(0)
    rows = torch.randn(300, 5) @ torch.randn(5, 5) + 3
    encoder = LinearEncoder(TableSchema(5), 3)
    principal_components(encoder, rows, TableSchema(5))
    outputs = encoder(rows).detach()
    whitened(outputs, 3)
    _, _, directions = torch.linalg.svd(rows - rows.mean(dim=0))
    expected = (rows - rows.mean(dim=0)) @ directions[:3].T
    for ours, theirs in zip(outputs.T, expected.T, strict=True):
        assert abs(torch.corrcoef(torch.stack([ours, theirs]))[0, 1]) > 0.9999


@pytest.mark.parametrize("numeric", [0, 2])
def test_principal_components_take_categories_as_columns_of_their_own(numeric: int) -> None:
    torch.manual_seed(0)
    schema = TableSchema(numeric, (4, 3))
    codes = torch.stack([torch.randint(size, (500,)) for size in schema.categories], dim=1).float()
    rows = torch.cat([torch.randn(500, numeric), codes], dim=1)
    encoder = LinearEncoder(schema, 4)
    principal_components(encoder, rows, schema)
    whitened(encoder(rows).detach(), 4)


def test_components_that_are_not_there_are_zero() -> None:
    """Two equal columns and a constant one vary in one direction."""
    column = torch.randn(100, 1, generator=torch.Generator().manual_seed(0))
    rows = torch.cat([column, column, torch.ones(100, 1)], dim=1)
    encoder = LinearEncoder(TableSchema(3), 3)
    principal_components(encoder, rows, TableSchema(3))
    outputs = encoder(rows).detach()
    whitened(outputs, 1)
    assert outputs[:, 1:].abs().max() < 1e-5


def test_principal_components_of_images_do_not_depend_on_how_pixels_are_stored() -> None:
    """What the paper's table missed: fitted on levels of 0..255, evaluated on standardised ones."""
    torch.manual_seed(0)
    schema = ImageSchema(1, 4, 4, (0.4,), (0.3,))
    levels = torch.randint(256, (200, 1, 4, 4), dtype=torch.uint8)
    encoder = LinearEncoder(schema, 5)
    principal_components(encoder, levels, schema)
    whitened(encoder(levels).detach(), 5)
    torch.testing.assert_close(encoder(levels.float() / 255), encoder(levels), atol=1e-4, rtol=1e-4)
