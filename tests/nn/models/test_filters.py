"""Filters: the same whatever the rows are, of one length, and true to what they say they see."""

import pytest
import torch

from vesica.errors import InputError
from vesica.nn.models import EncoderSpec, build_encoder
from vesica.nn.models.filters import LENGTH, edge_kernels
from vesica.schema import ImageSchema, TableSchema

QUADRANT = ImageSchema(1, 14, 14, (0.5,), (0.5,))
MIXED = TableSchema(3, (4, 2))


def step_at(column: int) -> torch.Tensor:
    """Dark on the left and bright from this column on."""
    image = torch.zeros(1, 1, 14, 14)
    image[..., column:] = 1
    return image


def test_an_edge_is_seen_in_its_direction_and_in_its_cells() -> None:
    cells = build_encoder("filters", QUADRANT, dim=16)(step_at(3)).reshape(4, 2, 2)  # right, down, left, up
    right, down, left, up = cells
    assert (right[:, 0] > 1.0).all()
    assert (right[:, 1] == 0).all()
    assert torch.allclose(torch.stack([down, left, up]), torch.zeros(3, 2, 2), atol=1e-2)


def test_every_image_has_one_length_and_brightness_does_not_matter() -> None:
    images = torch.randint(256, (5, 1, 14, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    encoder = build_encoder("filters", QUADRANT)
    outputs = encoder(images)
    assert outputs.shape == (5, 128)
    assert torch.allclose(outputs.norm(dim=1), torch.full((5,), LENGTH))
    assert torch.allclose(encoder(images.float() / 510), outputs, atol=1e-5)
    assert torch.equal(encoder(torch.zeros_like(images)), torch.zeros(5, 128))


def test_an_edge_four_times_as_strong_counts_twice() -> None:
    image = torch.zeros(1, 1, 14, 14)
    image[..., 3:], image[..., 10:] = 0.2, 1.0  # up by .2 on the left, by .8 on the right
    right = build_encoder("filters", QUADRANT, dim=16)(image).reshape(4, 2, 2)[0]
    assert torch.allclose(right[:, 1] / right[:, 0], torch.tensor(2.0), atol=1e-4)


def test_a_kernel_answers_to_its_own_slope_most() -> None:
    kernels = edge_kernels(8)[:, 0]
    assert torch.allclose(kernels.sum(dim=(1, 2)), torch.zeros(8), atol=1e-6)
    similar = torch.einsum("aij,bij->ab", kernels, kernels)
    assert torch.equal(similar.argmax(dim=1), torch.arange(8))
    assert torch.equal(similar.argmin(dim=1), (torch.arange(8) + 4) % 8)  # the opposite slope


def test_a_turn_keeps_angles_where_it_keeps_all_directions() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("filters", MIXED, dim=9)
    rows = torch.tensor([[1.0, 2.0, 3.0, 1, 0], [0.5, -1.0, 0.0, 3, 1]])
    hot = torch.tensor([[1.0, 2, 3, 0, 1, 0, 0, 1, 0], [0.5, -1, 0, 0, 0, 0, 1, 0, 1]])
    one, two = encoder(rows)
    assert torch.allclose(torch.dot(one, two) / LENGTH**2, torch.cosine_similarity(hot[0], hot[1], dim=0), atol=1e-5)


@pytest.mark.parametrize("schema", [QUADRANT, MIXED])
def test_there_is_nothing_to_train(schema: ImageSchema | TableSchema) -> None:
    assert not any(parameter.requires_grad for parameter in build_encoder("filters", schema).parameters())


@pytest.mark.parametrize("schema", [QUADRANT, MIXED])
def test_a_saved_encoder_is_the_same(schema: ImageSchema | TableSchema) -> None:
    spec = EncoderSpec.choose("filters", schema, dim=16)
    encoder, again = spec.build(), EncoderSpec.from_json(spec.to_json()).build()
    again.load_state_dict(encoder.state_dict())
    rows = torch.ones(2, 1, 14, 14) if isinstance(schema, ImageSchema) else torch.ones(2, 5)
    assert torch.equal(encoder(rows), again(rows))


@pytest.mark.parametrize(("dim", "sentence"), [(17, "no dim 17: use 16"), (4 * 15**2, "fewer pixels")])
def test_a_dim_that_no_grid_gives_is_refused(dim: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build_encoder("filters", QUADRANT, dim=dim)
