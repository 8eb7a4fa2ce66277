"""Encoders of tables: embedded categories beside the numeric columns, and a linear model."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vesica.nn.models.cnn import Normalise
from vesica.nn.models.mlp import MLP
from vesica.schema import ImageSchema, TableSchema


class EmbeddingTable(nn.Module):
    """The embeddings of categorical columns of one width, in one table: many columns cost one lookup.

    Row 0 of every column (a category not seen in training) starts at zero.
    """

    columns: Tensor
    offsets: Tensor

    def __init__(self, columns: Sequence[int], sizes: Sequence[int], *, dim: int, std: float) -> None:
        super().__init__()
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.register_buffer("offsets", offsets, persistent=False)
        self.embedding = nn.Embedding(sum(sizes), dim)
        with torch.no_grad():
            self.embedding.weight.normal_(std=std)
            self.embedding.weight[offsets] = 0

    def forward(self, codes: Tensor) -> Tensor:
        """From codes (rows, all categorical columns) to (rows, own columns, dim)."""
        vectors: Tensor = self.embedding(codes[:, self.columns].long() + self.offsets)
        return vectors


class CategoryEmbeddings(nn.Module):
    """An embedding per categorical column, concatenated: narrow columns first, equal ones in their order."""

    def __init__(self, categories: Sequence[int], dims: Sequence[int], *, std: float) -> None:
        super().__init__()
        self.width = sum(dims)
        self.tables = nn.ModuleList()
        for dim in sorted(set(dims)):
            columns = [column for column, width in enumerate(dims) if width == dim]
            sizes = [categories[column] for column in columns]
            self.tables.append(EmbeddingTable(columns, sizes, dim=dim, std=std))

    def forward(self, codes: Tensor) -> Tensor:
        return torch.cat([table(codes).flatten(1) for table in self.tables], dim=1)


def embedding_width(categories: int) -> int:
    """The usual rule of thumb: wider for more categories, at most 32."""
    return min(32, round(1.6 * math.pow(categories, 0.56)))


class TabularEncoder(nn.Module):
    """Numeric columns and embedded categories through an MLP."""

    def __init__(
        self,
        schema: TableSchema,
        hidden: Sequence[int],
        outputs: int,
        *,
        embedding_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.numeric = schema.numeric
        given = embedding_dim
        dims = [embedding_width(size) if given is None else given for size in schema.categories]
        # Small, so that a category seen a few times stays close to one never seen.
        self.embeddings = CategoryEmbeddings(schema.categories, dims, std=0.1) if dims else None
        self.mlp = MLP(schema.numeric + sum(dims), hidden, outputs, dropout=dropout)
        self.dim = outputs

    @property
    def top(self) -> nn.Module:
        return self.mlp.top

    def forward(self, rows: Tensor) -> Tensor:
        encoded: Tensor = self.mlp(beside(rows, self.numeric, self.embeddings))
        return encoded


class NormedEncoder(nn.Module):
    """FedHSSL's for tables: two linear layers with batch norm and ReLU, embedded categories before them.

    It is cut between the two: `top` has the same shape whatever the columns are.
    """

    def __init__(self, schema: TableSchema, outputs: int, *, embedding_dim: int = 32) -> None:
        super().__init__()
        self.numeric = schema.numeric
        dims = [embedding_dim] * len(schema.categories)
        self.embeddings = CategoryEmbeddings(schema.categories, dims, std=0.1) if dims else None
        self.bottom = _normed(schema.numeric + sum(dims), outputs)
        self.top = _normed(outputs, outputs)
        self.dim = outputs

    def forward(self, rows: Tensor) -> Tensor:
        encoded: Tensor = self.top(self.bottom(beside(rows, self.numeric, self.embeddings)))
        return encoded


def beside(rows: Tensor, numeric: int, embeddings: CategoryEmbeddings | None) -> Tensor:
    """The numeric columns, and the embedded codes beside them."""
    if embeddings is None:
        return rows
    return torch.cat([rows[:, :numeric], embeddings(rows[:, numeric:])], dim=1)


def _normed(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU())


class LinearEncoder(nn.Module):
    """A linear model of numeric columns and one-hot categories, or of an image's standardised pixels."""

    def __init__(self, schema: TableSchema | ImageSchema, outputs: int) -> None:
        super().__init__()
        self.front: nn.Module = nn.Identity()
        categories: tuple[int, ...] = ()
        if isinstance(schema, ImageSchema):
            self.front = nn.Sequential(Normalise(schema.mean, schema.std), nn.Flatten())
            self.numeric = schema.channels * schema.height * schema.width
        else:
            self.numeric, categories = schema.numeric, schema.categories
        # Without numeric columns the one-hot categories hold the intercept.
        self.linear = nn.Linear(self.numeric, outputs) if self.numeric else None
        self.table = EmbeddingTable(range(len(categories)), categories, dim=outputs, std=0.0) if categories else None
        self.dim = outputs

    def forward(self, rows: Tensor) -> Tensor:
        values: Tensor = self.front(rows)
        terms: list[Tensor] = []
        if self.linear is not None:
            terms.append(self.linear(values[:, : self.numeric]))
        if self.table is not None:
            terms.append(self.table(values[:, self.numeric :]).sum(dim=1))
        return torch.stack(terms).sum(dim=0)
