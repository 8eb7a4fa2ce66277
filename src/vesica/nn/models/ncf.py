"""The network FedOnce (Wu et al.) uses on MovieLens, after neural collaborative filtering."""

from collections.abc import Sequence

from torch import Tensor, nn

from vesica.errors import InputError
from vesica.nn.models.mlp import MLP
from vesica.nn.models.tabular import CategoryEmbeddings
from vesica.schema import TableSchema


class NCF(nn.Module):
    """One embedding of the given dimension per categorical column, concatenated, through an MLP."""

    def __init__(self, schema: TableSchema, dims: Sequence[int], hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        if schema.numeric:
            raise InputError(
                f"NCF takes categorical columns only and this table has {schema.numeric} numeric ones: use 'tabular'"
            )
        if not dims or len(dims) != len(schema.categories):
            raise InputError(
                f"NCF needs one embedding dimension per categorical column, at least one: "
                f"{len(schema.categories)} columns, got {len(dims)} dimensions"
            )
        self.embeddings = CategoryEmbeddings(schema.categories, dims, std=1.0)
        self.mlp = MLP(self.embeddings.width, hidden, outputs)
        self.dim = outputs

    def forward(self, rows: Tensor) -> Tensor:
        encoded: Tensor = self.mlp(self.embeddings(rows))
        return encoded
