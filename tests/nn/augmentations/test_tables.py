"""FixMatch-tab's views and Scarf's by hand."""

import pytest
import torch
from torch import Tensor

from vesica.errors import InputError
from vesica.nn.augmentations import TableViews, views_of
from vesica.schema import TableSchema

SCHEMA = TableSchema(numeric=3, categories=(5, 9))


def table(rows: int = 4000) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    numeric = torch.randn(rows, 3, generator=generator) * torch.tensor([1.0, 2.0, 0.5]) + torch.tensor([3.0, -1.0, 0.0])
    codes = torch.stack([torch.randint(1, size, (rows,), generator=generator) for size in SCHEMA.categories], dim=1)
    return torch.cat([numeric, codes], dim=1)


def test_a_fifth_of_the_values_becomes_the_mean_or_code_0_and_the_rest_stays() -> None:
    rows = table()
    torch.manual_seed(0)
    weak = TableViews(SCHEMA, rows).weak(rows)
    masked = weak != rows
    assert ((masked.float().mean(dim=0) - 0.2).abs() < 0.025).all()
    average = torch.cat([rows[:, :3].mean(dim=0), torch.zeros(2)])
    torch.testing.assert_close(weak[masked], average.expand_as(rows)[masked])


def test_every_value_has_a_coin_of_its_own() -> None:
    rows = table()
    torch.manual_seed(0)
    masked = (TableViews(SCHEMA, rows).weak(rows) != rows).float()
    assert (torch.corrcoef(masked.T) - torch.eye(5)).abs().max() < 0.06
    assert abs(masked.sum(dim=1).var() - 5 * 0.2 * 0.8) < 0.06


def test_the_strong_view_is_the_weak_one_and_noise_on_the_numbers() -> None:
    rows = table()
    torch.manual_seed(0)
    weak, strong = TableViews(SCHEMA, rows).both(rows)
    noise = (strong - weak)[:, :3]
    assert torch.equal(strong[:, 3:], weak[:, 3:])
    assert (noise != 0).float().mean() > 0.99
    assert ((noise.std(dim=0) - 0.1).abs() < 0.005).all()
    assert (noise.mean(dim=0).abs() < 0.01).all()
    assert ((weak != rows).any(dim=0)).all()


def test_the_mean_is_that_of_the_rows_given_first() -> None:
    views = TableViews(SCHEMA, torch.full((2, 5), 7.0), masked=1.0)
    assert views.weak(table(3)).tolist() == [[7.0, 7.0, 7.0, 0.0, 0.0]] * 3


def test_rows_stay_and_the_global_generator_decides() -> None:
    rows = table(50)
    before = rows.clone()
    views = views_of(SCHEMA, rows)
    torch.manual_seed(1)
    one = views.both(rows)
    torch.manual_seed(1)
    two = views.both(rows)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not torch.equal(views.both(rows)[0], one[0])
    assert torch.equal(rows, before)


@pytest.mark.parametrize("schema", [TableSchema(3), TableSchema(0, (5, 9, 4))])
def test_tables_of_one_kind_of_column_have_views(schema: TableSchema) -> None:
    rows = torch.ones(10, 3)
    weak, strong = TableViews(schema, rows).both(rows)
    assert weak.shape == strong.shape == rows.shape


def test_what_has_no_mean_is_refused() -> None:
    with pytest.raises(InputError, match="at least one row of 5 columns"):
        TableViews(SCHEMA, torch.zeros(0, 5))
    with pytest.raises(InputError, match="of 5 columns"):
        TableViews(SCHEMA, torch.zeros(2, 4))
    with pytest.raises(InputError, match=r"masked in 0\.\.1"):
        TableViews(SCHEMA, torch.zeros(2, 5), masked=1.5)


def test_a_pair_is_the_row_and_the_row_with_three_of_five_columns_from_others() -> None:
    rows = torch.arange(20.0).view(4, 5)
    elsewhere = -1 - torch.arange(50.0).view(10, 5)
    torch.manual_seed(0)
    clean, corrupted = TableViews(SCHEMA, elsewhere).pair(rows.repeat(500, 1))
    assert torch.equal(clean, rows.repeat(500, 1))
    taken = corrupted < 0
    assert (taken.sum(dim=1) == 3).all()
    assert torch.equal(corrupted[~taken], clean[~taken])
    assert ((taken.float().mean(dim=0) - 0.6).abs() < 0.04).all()
    for column in range(5):
        values = corrupted[:, column][taken[:, column]]
        assert set(values.tolist()) == set(elsewhere[:, column].tolist())


def test_corrupted_columns_come_from_rows_of_their_own() -> None:
    elsewhere = torch.arange(10.0)[:, None].expand(-1, 5)
    torch.manual_seed(0)
    _, corrupted = TableViews(SCHEMA, elsewhere, corrupted=1.0).pair(torch.full((20_000, 5), -1.0))
    assert (torch.corrcoef(corrupted.T) - torch.eye(5)).abs().max() < 0.05


def test_corruption_follows_how_often_a_value_occurs() -> None:
    """Numbers, codes, unknown and missing ones: code 1 is a missing value, and a numeric column marks them with 1."""
    often = torch.tensor([[0.5, 0.0, 1.0, 1.0, 4.0]] * 9 + [[-2.0, 1.0, 0.0, 0.0, 8.0]])
    torch.manual_seed(0)
    _, corrupted = TableViews(SCHEMA, often, corrupted=1.0).pair(torch.full((5000, 5), 77.0))
    for column in range(5):
        assert set(corrupted[:, column].tolist()) == set(often[:, column].tolist())
        share = (corrupted[:, column] == often[0, column]).float().mean()
        assert share == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("width", "corrupted", "taken"), [(10, 0.3, 3), (5, 0.6, 3), (7, 0.6, 4), (100, 0.29, 29), (1, 0.6, 1), (3, 1.0, 3)]
)
def test_exactly_so_many_columns_are_corrupted(width: int, corrupted: float, taken: int) -> None:
    schema = TableSchema(width)
    views = views_of(schema, torch.zeros(4, width), corrupted=corrupted)
    _, other = views.pair(torch.ones(50, width))
    assert (other.sum(dim=1) == width - taken).all()


@pytest.mark.parametrize("corrupted", [0.0, 1.1])
def test_a_corruption_of_none_or_of_more_than_all_is_refused(corrupted: float) -> None:
    with pytest.raises(InputError, match=f"above 0 and up to 1, not {corrupted}"):
        TableViews(SCHEMA, torch.zeros(2, 5), corrupted=corrupted)
