"""FedOnce's MovieLens network."""

import pytest
import torch
from torch import nn

from vesica.errors import InputError
from vesica.nn.models import NCF
from vesica.schema import TableSchema


def test_it_has_one_embedding_of_the_given_dimension_per_column() -> None:
    schema = TableSchema(0, (4, 9, 23, 6, 83, 20))
    dims = (1, 4, 10, 4, 15, 5)
    ncf = NCF(schema, dims, (32,), 64)
    embedded = sum(size * dim for size, dim in zip(schema.categories, dims, strict=True))
    layers = (39 * 32 + 32) + (32 * 64 + 64)
    assert sum(p.numel() for p in ncf.parameters()) == embedded + layers
    assert ncf(torch.ones(7, 6)).shape == (7, 64)
    assert ncf.dim == 64


def test_the_output_has_no_activation() -> None:
    assert isinstance(NCF(TableSchema(0, (50, 50)), (32, 32), (10,), 8).mlp[-1], nn.Linear)


def test_numeric_columns_are_refused() -> None:
    with pytest.raises(InputError, match="has 3 numeric ones: use 'tabular'"):
        NCF(TableSchema(3, (5,)), (2,), (), 1)


def test_a_missing_dimension_is_refused() -> None:
    with pytest.raises(InputError, match="2 columns, got 1 dimensions"):
        NCF(TableSchema(0, (5, 5)), (2,), (), 1)
