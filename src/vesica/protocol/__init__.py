"""The conversation between a host and its guests."""

from vesica.protocol.budget import Budget
from vesica.protocol.ledger import Ledger
from vesica.protocol.link import Link
from vesica.protocol.message import Message
from vesica.protocol.party import Guest, Host, Rows

__all__ = ["Budget", "Guest", "Host", "Ledger", "Link", "Message", "Rows"]
