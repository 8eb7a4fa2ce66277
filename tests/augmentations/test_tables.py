"""FixMatch-tab's views by hand."""

import pytest
import torch
from torch import Tensor

from vesica.augmentations import TableViews, views_of
from vesica.errors import InputError
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
