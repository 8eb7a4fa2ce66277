"""Tables and federations: a file becomes a `Federation`."""

from vesica.data.federation import Federation, Overlap, PartyData, TestRows
from vesica.data.rows import split_rows
from vesica.data.table import Table, Text

__all__ = [
    "Federation",
    "Overlap",
    "PartyData",
    "Table",
    "TestRows",
    "Text",
    "split_rows",
]
