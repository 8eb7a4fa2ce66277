"""The part of an encoder that parties may average, and the mean of several encoders."""

import pytest
import torch
from torch import nn

from vesica.nn.models import EncoderSpec, MeanEncoder, NormedEncoder, build_encoder, top_of
from vesica.schema import ImageSchema, Schema, TableSchema

SMALL, LARGE, MIXED = TableSchema(3), TableSchema(40), TableSchema(2, (5, 9))
PHOTO = ImageSchema(3, 16, 16, (0.5,) * 3, (0.25,) * 3)
GREY = ImageSchema(1, 16, 16, (0.5,), (0.25,))


def shapes(name: str, schema: Schema, dim: int = 24) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in top_of(build_encoder(name, schema, dim=dim)).parameters()]


@pytest.mark.parametrize(
    ("name", "schemas"),
    [
        ("mlp", (SMALL, LARGE)),
        ("mlp2", (SMALL, LARGE, MIXED)),
        ("tabular", (SMALL, LARGE, MIXED)),
        ("cnn", (GREY, PHOTO)),
        ("wrn", (GREY, PHOTO)),
        ("resnet18", (GREY, PHOTO)),
        ("quick", (GREY, PHOTO)),
    ],
)
def test_tops_have_one_shape_whatever_the_inputs_are(name: str, schemas: tuple[Schema, ...]) -> None:
    first, *others = (shapes(name, schema) for schema in schemas)
    assert first
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["mlp", "mlp2", "tabular", "cnn", "cnn1", "wrn", "resnet18", "quick"])
def test_a_top_is_a_true_part_that_the_output_depends_on(name: str) -> None:
    schema = PHOTO if name in ("cnn", "cnn1", "wrn", "resnet18", "quick") else SMALL
    encoder = build_encoder(name, schema, dim=24).eval()
    rows = torch.rand(4, *schema.row_shape)
    before = encoder(rows)
    top = list(top_of(encoder).parameters())
    assert 0 < len(top) < len(list(encoder.parameters()))
    with torch.no_grad():
        top[-1].add_(1.0)
    assert not torch.equal(encoder(rows), before)


@pytest.mark.parametrize(("name", "schema"), [("linear", SMALL), ("filters", SMALL), ("linear", PHOTO)])
def test_an_encoder_that_is_not_cut_has_an_empty_top(name: str, schema: Schema) -> None:
    assert shapes(name, schema) == []


def test_the_two_layers_of_fedhssl_are_normed_and_cut_between_them() -> None:
    encoder = NormedEncoder(SMALL, 8)
    for block, inputs in ((encoder.bottom, 3), (encoder.top, 8)):
        assert [type(layer) for layer in block] == [nn.Linear, nn.BatchNorm1d, nn.ReLU]
        assert block[0].weight.shape == (8, inputs)
    encoder.eval()
    rows = torch.randn(5, 3)
    torch.testing.assert_close(encoder(rows), encoder.top(encoder.bottom(rows)))
    assert NormedEncoder(MIXED, 8).bottom[0].in_features == 2 + 2 * 32


def test_several_copies_are_the_mean_of_encoders_with_weights_of_their_own() -> None:
    spec = EncoderSpec("mlp", 6, LARGE, copies=2)
    encoder = spec.build().eval()
    assert isinstance(encoder, MeanEncoder)
    one, two = encoder.encoders
    rows = torch.randn(5, 40)
    assert not torch.equal(one(rows), two(rows))
    torch.testing.assert_close(encoder(rows), (one(rows) + two(rows)) / 2)
    again = EncoderSpec.from_json(spec.to_json())
    assert again == spec
    assert again.build().load_state_dict(encoder.state_dict())


def test_a_model_of_before_there_were_copies_is_one_encoder() -> None:
    values = EncoderSpec("mlp", 6, LARGE).to_json()
    del values["copies"]
    assert EncoderSpec.from_json(values).copies == 1
