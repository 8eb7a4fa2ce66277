"""Tables, federations and public data sets."""

from vesica.data.federation import Federation, Overlap, PartyData, TestRows
from vesica.data.rows import split_rows
from vesica.data.scenario import SCENARIOS, make_federation
from vesica.data.table import Table, Text

__all__ = [
    "SCENARIOS",
    "Federation",
    "Overlap",
    "PartyData",
    "Table",
    "TestRows",
    "Text",
    "make_federation",
    "split_rows",
]
