"""Encoders of tables against lookups and sums computed another way."""

import pytest
import torch
from torch import Tensor

from vesica.nn.models import LinearEncoder, TabularEncoder
from vesica.nn.models.tabular import CategoryEmbeddings, EmbeddingTable, embedding_width
from vesica.schema import ImageSchema, TableSchema

MIXED = TableSchema(numeric=2, categories=(3, 50, 4, 50))
ROWS = torch.tensor([[0.5, -1.0, 2, 49, 3, 0], [0.1, 2.0, 0, 1, 0, 49], [0.0, 0.0, 1, 7, 2, 1]])


def column_vectors(embeddings: CategoryEmbeddings, column: int) -> Tensor:
    """The vectors of one column, found by walking over the sizes of its table."""
    for table in embeddings.tables:
        assert isinstance(table, EmbeddingTable)
        start = 0
        for own in table.columns.tolist():
            if own == column:
                return table.embedding.weight[start : start + MIXED.categories[column]].detach()
            start += MIXED.categories[own]
    raise AssertionError(f"column {column} has no embedding")


@pytest.mark.parametrize("embedding_dim", [None, 5])
def test_every_column_reads_its_own_vectors(embedding_dim: int | None) -> None:
    torch.manual_seed(0)
    encoder = TabularEncoder(MIXED, (), 3, embedding_dim=embedding_dim)
    assert encoder.embeddings is not None
    vectors = [column_vectors(encoder.embeddings, column) for column in range(4)]
    order = sorted(range(4), key=lambda column: vectors[column].shape[1])
    looked_up = [vectors[column][ROWS[:, 2 + column].long()] for column in order]
    expected = encoder.mlp(torch.cat([ROWS[:, :2], *looked_up], dim=1))
    torch.testing.assert_close(encoder(ROWS), expected)
    assert encoder.dim == 3


def test_an_unseen_category_starts_at_zero_and_the_others_do_not() -> None:
    torch.manual_seed(0)
    encoder = TabularEncoder(MIXED, (), 3)
    assert encoder.embeddings is not None
    for column in range(4):
        vectors = column_vectors(encoder.embeddings, column)
        assert (vectors[0] == 0).all()
        assert (vectors[1:] != 0).all()


def test_an_unseen_category_can_still_learn() -> None:
    encoder = TabularEncoder(TableSchema(0, (3,)), (), 1)
    encoder(torch.zeros(2, 1)).sum().backward()
    assert encoder.embeddings is not None
    table = encoder.embeddings.tables[0]
    assert isinstance(table, EmbeddingTable)
    assert table.embedding.weight.grad is not None
    assert (table.embedding.weight.grad[0] != 0).all()


def test_the_width_of_an_embedding_grows_with_the_categories_up_to_32() -> None:
    assert [embedding_width(size) for size in (2, 10, 100, 10**6)] == [2, 6, 21, 32]


def test_columns_of_equal_width_share_one_table() -> None:
    encoder = TabularEncoder(TableSchema(0, (5,) * 100), (), 1)
    assert encoder.embeddings is not None
    assert len(encoder.embeddings.tables) == 1


def test_a_linear_encoder_of_a_table_is_a_regression_on_one_hot_categories() -> None:
    torch.manual_seed(0)
    encoder = LinearEncoder(TableSchema(2, (3, 4)), 2)
    assert encoder.linear is not None
    assert encoder.table is not None
    assert (encoder.table.embedding.weight == 0).all()
    torch.nn.init.normal_(encoder.table.embedding.weight)
    rows = torch.tensor([[0.5, -1.0, 2, 3], [0.1, 2.0, 0, 0]])
    one_hot = torch.nn.functional.one_hot
    design = torch.cat([one_hot(rows[:, 2].long(), 3), one_hot(rows[:, 3].long(), 4)], dim=1).float()
    expected = encoder.linear(rows[:, :2]) + design @ encoder.table.embedding.weight
    torch.testing.assert_close(encoder(rows), expected)


def test_a_linear_encoder_needs_no_numeric_column() -> None:
    assert LinearEncoder(TableSchema(0, (3,)), 2)(torch.zeros(4, 1)).shape == (4, 2)


def test_a_linear_encoder_of_images_sees_standardised_pixels() -> None:
    torch.manual_seed(0)
    encoder = LinearEncoder(ImageSchema(1, 3, 5, mean=(0.5,), std=(0.25,)), 2)
    assert encoder.linear is not None
    images = torch.rand(4, 1, 3, 5)
    expected = encoder.linear(((images - 0.5) / 0.25).reshape(4, 15))
    torch.testing.assert_close(encoder(images), expected)
