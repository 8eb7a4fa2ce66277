"""Weak and strong views of table rows: FixMatch-tab (Sun et al., ICCV 2023, Eq. 5-6)."""

import torch
from torch import Tensor

from vesica.errors import InputError
from vesica.schema import TableSchema


class TableViews:
    """Views for semi-supervised learning on a table.

    Weak: every value is replaced, with probability `masked`, by what its column says on average. Strong: the weak
    view of the same mask, plus Gaussian noise. The paper calls its r_m = .2 the ratio of masked elements, while its
    Eq. 6 read literally would replace the other 80 %; here 20 % are replaced.

    A numeric column's average is its mean over `rows`. Categories have no mean: a masked one becomes code 0, the
    category not seen in training, which states nothing false and teaches the model to read that code. The noise
    is on the scale of standardised columns, indicators of missing values included, and never touches codes.
    """

    def __init__(self, schema: TableSchema, rows: Tensor, *, masked: float = 0.2, noise: float = 0.1) -> None:
        if not len(rows) or rows.shape[1:] != (schema.width,):
            raise InputError(
                f"views of a table need at least one row of {schema.width} columns to take means of and got "
                f"shape {tuple(rows.shape)}"
            )
        if not 0 <= masked <= 1 or noise < 0:
            raise InputError(f"a table's views need masked in 0..1 and noise from 0 on, not {masked} and {noise}")
        self._numeric = schema.numeric
        self._masked = masked
        self._noise = noise
        self._average = rows.mean(dim=0)
        self._average[schema.numeric :] = 0

    def weak(self, rows: Tensor) -> Tensor:
        return torch.where(torch.rand_like(rows) < self._masked, self._average, rows)

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The weak and the strong view, under one mask."""
        weak = self.weak(rows)
        strong = weak.clone()
        strong[:, : self._numeric] += self._noise * torch.randn_like(strong[:, : self._numeric])
        return weak, strong
