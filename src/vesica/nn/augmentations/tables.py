"""Views of table rows: FixMatch-tab's (Sun et al., ICCV 2023, Eq. 5-6) and Scarf's (Bahri et al., 2022)."""

import math

import torch
from torch import Tensor

from vesica.errors import InputError
from vesica.schema import TableSchema

_SHARED = 32  # rows whose corrupted columns come from one order of the columns


class TableViews:
    """Views for semi-supervised and for self-supervised learning on a table.

    Weak: every value is replaced, with probability `masked`, by what its column says on average. Strong: the weak
    view of the same mask, plus Gaussian noise. The paper calls its r_m = .2 the ratio of masked elements, while its
    Eq. 6 read literally would replace the other 80 %; here 20 % are replaced.

    A numeric column's average is its mean over `rows`. Categories have no mean: a masked one becomes code 0, the
    category not seen in training, which states nothing false and teaches the model to read that code. The noise
    is on the scale of standardised columns, indicators of missing values included, and never touches codes.

    The pair is a row and the row with `corrupted` of its columns, rounded down but at least one, taken each from
    another row of `rows`: numbers, codes and missing values alike as often as they occur.
    """

    def __init__(
        self, schema: TableSchema, rows: Tensor, *, masked: float = 0.2, noise: float = 0.1, corrupted: float = 0.6
    ) -> None:
        if not len(rows) or rows.shape[1:] != (schema.width,):
            raise InputError(
                f"views of a table need at least one row of {schema.width} columns to take means of and got "
                f"shape {tuple(rows.shape)}"
            )
        if not 0 <= masked <= 1 or noise < 0:
            raise InputError(f"a table's views need masked in 0..1 and noise from 0 on, not {masked} and {noise}")
        if not 0 < corrupted <= 1:
            raise InputError(f"the pair of a table's views needs corrupted above 0 and up to 1, not {corrupted}")
        self._numeric = schema.numeric
        self._masked = masked
        self._noise = noise
        self._corrupted = max(1, math.floor(corrupted * schema.width + 1e-9))  # 0.29 * 100 is a little below 29
        self._rows = rows
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

    def pair(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The rows as they are, and corrupted."""
        columns = self._choose_columns(*rows.shape, device=rows.device)
        # Values lie wide apart in a large table: some of its rows first, all values of which are near.
        near = self._rows[torch.randint(len(self._rows), rows.shape[:1], device=rows.device)]
        from_rows = torch.randint(len(rows), columns.shape, device=rows.device)
        return rows, rows.scatter(1, columns, near[from_rows, columns])

    def _choose_columns(self, rows: int, width: int, *, device: torch.device) -> Tensor:
        """The columns of each row to corrupt: of a random order, round and round, so many from a random place on.

        That is any choice as often as any other. Some rows share an order, because to draw one takes a sort.
        """
        orders = torch.rand(-(-rows // _SHARED), width, device=device).argsort(dim=1)
        places = torch.randint(width, (rows, 1), device=device) + torch.arange(self._corrupted, device=device)
        return orders[torch.arange(rows, device=device)[:, None] % len(orders), places % width]
