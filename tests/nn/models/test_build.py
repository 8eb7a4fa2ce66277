"""Encoders by name: what fits the data is built, what does not is refused, and a spec rebuilds it."""

import json

import pytest
import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.models import (
    CNN0,
    CNN1,
    ENCODERS,
    MLP,
    EncoderSpec,
    LinearEncoder,
    NormedEncoder,
    QuickCNN,
    ResNet18,
    TabularEncoder,
    WideResNet,
    build_encoder,
)
from vesica.schema import ImageSchema, Schema, TableSchema

NUMERIC = TableSchema(5)
MIXED = TableSchema(2, (3, 40, 3))
SIZES = [(3, 16, 16), (1, 14, 14), (3, 32, 16), (3, 32, 32), (1, 28, 28), (2, 15, 21)]


def images_of(channels: int, height: int, width: int) -> ImageSchema:
    return ImageSchema(channels, height, width, mean=(0.5,) * channels, std=(0.25,) * channels)


IMAGES = [images_of(*size) for size in SIZES]
FITTING: list[tuple[str, Schema]] = [
    ("mlp", NUMERIC),
    ("mlp2", NUMERIC),
    ("mlp2", MIXED),
    ("tabular", NUMERIC),
    ("tabular", MIXED),
    ("linear", MIXED),
    *(
        (name, schema)
        for name in ("cnn", "cnn1", "wrn", "resnet18", "quick", "quick-wide", "linear")
        for schema in IMAGES
    ),
]
ONE_OF_EACH: list[tuple[str, Schema]] = [*FITTING[:6], *((n, s) for n, s in FITTING[6:] if s == IMAGES[0])]


def rows_of(schema: Schema, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    if isinstance(schema, ImageSchema):
        shape = (rows, schema.channels, schema.height, schema.width)
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    numeric = torch.randn(rows, schema.numeric, generator=generator)
    codes = [torch.arange(rows).reshape(-1, 1) % size for size in schema.categories]
    return torch.cat([numeric, *codes], dim=1)


@pytest.mark.parametrize(("name", "schema"), FITTING)
def test_every_encoder_gives_rows_of_its_dim(name: str, schema: Schema) -> None:
    encoder = build_encoder(name, schema, dim=24)
    assert encoder(rows_of(schema, 2)).shape == (2, 24)
    assert encoder.dim == 24


@pytest.mark.parametrize(("name", "schema"), ONE_OF_EACH)
def test_a_gradient_reaches_every_parameter(name: str, schema: Schema) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name, schema, dim=24)
    encoder(rows_of(schema, 40)).square().sum().backward()
    for parameter_name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.any(), parameter_name


@pytest.mark.parametrize(("name", "schema"), ONE_OF_EACH)
def test_a_spec_rebuilds_the_encoder_its_state_fits(name: str, schema: Schema) -> None:
    spec = EncoderSpec.choose(name, schema)
    again = EncoderSpec.from_json(json.loads(json.dumps(spec.to_json(), sort_keys=True)))
    assert again == spec
    encoder, rebuilt = spec.build().eval(), again.build().eval()
    rebuilt.load_state_dict(encoder.state_dict(), strict=True)
    rows = rows_of(schema, 3)
    assert torch.equal(encoder(rows), rebuilt(rows))


@pytest.mark.parametrize(("name", "schema"), ONE_OF_EACH)
def test_the_seed_decides_the_weights(name: str, schema: Schema) -> None:
    def weights(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(build_encoder(name, schema).parameters())

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


@pytest.mark.parametrize(("name", "schema"), [pair for pair in ONE_OF_EACH if isinstance(pair[1], ImageSchema)])
def test_every_image_encoder_standardises_its_input(name: str, schema: ImageSchema) -> None:
    encoder = build_encoder(name, schema).eval()
    images = rows_of(schema, 2)
    assert torch.equal(encoder(images), encoder(images.float() / 255))
    shifted = ImageSchema(schema.channels, schema.height, schema.width, mean=(0.1,) * 3, std=schema.std)
    other = build_encoder(name, shifted).eval()
    other.load_state_dict(encoder.state_dict())
    assert not torch.allclose(encoder(images), other(images))


@pytest.mark.parametrize(
    ("schema", "kind", "dim"), [(NUMERIC, MLP, 32), (MIXED, TabularEncoder, 32), (IMAGES[0], CNN0, 128)]
)
def test_the_default_fits_the_data(schema: Schema, kind: type[nn.Module], dim: int) -> None:
    encoder = build_encoder(None, schema)
    assert type(encoder) is kind
    assert encoder.dim == dim


def test_a_name_means_its_network() -> None:
    expected = {
        "mlp": MLP,
        "mlp2": NormedEncoder,
        "tabular": TabularEncoder,
        "linear": LinearEncoder,
        "cnn": CNN0,
        "cnn1": CNN1,
        "wrn": WideResNet,
        "resnet18": ResNet18,
        "quick": QuickCNN,
        "quick-wide": QuickCNN,
    }
    assert set(ENCODERS) == {*expected, "filters", "raw", "bins"}
    assert all(type(build_encoder(name, schema)) is expected[name] for name, schema in ONE_OF_EACH)


@pytest.mark.parametrize(("name", "features"), [("wrn", 128), ("resnet18", 512)])
def test_a_residual_network_gets_a_linear_layer_only_for_another_dim(name: str, features: int) -> None:
    def layers(dim: int) -> int:
        return sum(isinstance(m, nn.Linear) for m in build_encoder(name, IMAGES[0], dim=dim).modules())

    assert layers(features) == 0
    assert layers(features + 1) == 1


@pytest.mark.parametrize(
    ("name", "schema", "sentence"),
    [
        ("cnn", MIXED, "encoder 'cnn' is for images and this party has a table: use 'tabular'"),
        ("wrn", NUMERIC, "encoder 'wrn' is for images and this party has a table: use 'mlp'"),
        ("mlp", IMAGES[0], "encoder 'mlp' is for tables and this party has images: use 'cnn'"),
        ("mlp", MIXED, "numeric columns only and this table has 3 categorical: use 'tabular'"),
        ("linear", TableSchema(0), "needs at least one column and this table has none"),
        ("resnet", IMAGES[0], "there is no encoder 'resnet'; did you mean 'resnet18'?"),
        (
            "",
            NUMERIC,
            "there is no encoder ''; there are: cnn, cnn1, filters, linear, mlp, mlp2, quick, quick-wide, resnet18, "
            "tabular, wrn",
        ),
    ],
)
def test_a_wrong_choice_is_refused_with_what_to_do(name: str, schema: Schema, sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        build_encoder(name, schema)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("dim", [0, -1, 1.5, "8", True])
def test_a_dim_that_is_no_positive_whole_number_is_refused(dim: int) -> None:
    with pytest.raises(InputError, match="whole number from 1 on and not"):
        EncoderSpec.choose("mlp", NUMERIC, dim=dim)
