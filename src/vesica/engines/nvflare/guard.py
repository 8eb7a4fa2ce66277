"""What of NVFlare's traffic reaches this party: our calls, and how a client registers and leaves; nothing else.

NVFlare's own processes answer whoever is connected: a server forwards from client to client, and a client does what it
is asked to, a shell command included, without a look at who asks. So all that is received is checked before NVFlare
acts on it.
"""

from __future__ import annotations

import logging
from typing import Any

from nvflare.fuel.f3.cellnet import cell as cells
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, Encoding, MessageHeaderKey, MessageType
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    STREAM_ERROR_TOPIC,
    StreamHeaderKey,
)

from vesica.errors import PartyError

CHANNEL, TOPIC = "vesica", "note"

_TASKS = CellChannel.SERVER_MAIN
_MEMBERSHIP = {
    (_TASKS, CellChannelTopic.Challenge),
    (_TASKS, CellChannelTopic.Register),
    (_TASKS, CellChannelTopic.HEART_BEAT),
    (_TASKS, CellChannelTopic.Quit),
}
_BYE = (CellChannel.CELLNET, CellChannelTopic.Bye)
_CHUNK = (STREAM_CHANNEL, STREAM_DATA_TOPIC)
_CHUNK_TAKEN = (STREAM_CHANNEL, STREAM_ACK_TOPIC)
_CHUNK_REFUSED = (STREAM_CHANNEL, STREAM_ERROR_TOPIC)
_OURS = {(CHANNEL, TOPIC), (CellChannel.RETURN_ONLY, f"{CHANNEL}:{TOPIC}")}
_PLAIN = (None, Encoding.BYTES, Encoding.NONE)

_log = logging.getLogger(__name__)

for _name in ("process_message", "_create_internal_listener", "_add_adhoc_connector"):
    if not hasattr(CoreCell, _name) or not hasattr(cells, "CoreCell"):
        raise ImportError(f"no CoreCell.{_name} in its cellnet")


class GuardedCell(CoreCell):  # type: ignore[misc]
    """NVFlare's cell behind the guard, from its creation on: there is no moment at which it is open."""

    def process_message(self, endpoint: Any, connection: Any, app_id: int, message: Message) -> None:
        """All that comes over a connection comes by here, requests, replies and what should be forwarded."""
        certified = connection.get_conn_properties().get(DriverParams.PEER_CN.value)
        why = why_refused(message, me=self.get_fqcn(), sender=endpoint.name, certified=certified)
        if why is None:
            super().process_message(endpoint, connection, app_id, message)
        else:
            _log.warning("refused: a message from %.80r (%.80r), %s", endpoint.name, certified, why)

    def _create_internal_listener(self, scheme: Any = None, resources: Any = None) -> None:
        """It would listen without TLS, for processes of jobs: there are none."""

    def _add_adhoc_connector(self, to_cell: str, url: str) -> None:
        """No connection is made to where a peer says."""


def install() -> None:
    """From now on every cell of this process is a guarded one."""
    cells.CoreCell = GuardedCell


def check(cell: Any) -> None:
    """Nothing of a run goes over a cell that is open."""
    if not isinstance(cell.core_cell, GuardedCell):
        raise PartyError("NVFlare made a connection that is not guarded")


def why_refused(message: Message, *, me: str, sender: str, certified: str | None) -> str | None:
    """Why a message is refused; None where it is not.

    `sender` is what the other end of the connection calls itself, `certified` the name in its certificate, which gRPC
    tells the server alone: a client has compared the server's with the address it called.
    """
    leads = me == FQCN.ROOT_SERVER
    header = message.get_header
    if header(MessageHeaderKey.DESTINATION) != me:
        return f"to be forwarded to {header(MessageHeaderKey.DESTINATION)!r:.80}"
    if sender != (certified if leads else FQCN.ROOT_SERVER):
        return "under a name that is not its own"
    if {header(MessageHeaderKey.ORIGIN), header(MessageHeaderKey.FROM_CELL)} != {sender}:
        return f"in the name of {header(MessageHeaderKey.ORIGIN)!r:.80}"
    if not _is_known(message, leads=leads):
        return f"{header(MessageHeaderKey.TOPIC)!r:.80} on {header(MessageHeaderKey.CHANNEL)!r:.80}"
    return None


def _is_known(message: Message, *, leads: bool) -> bool:
    """Whether it is one of the few kinds of messages that a run needs."""
    header = message.get_header
    kind, what = header(MessageHeaderKey.MSG_TYPE), (header(MessageHeaderKey.CHANNEL), header(MessageHeaderKey.TOPIC))
    if header(MessageHeaderKey.SECURE):  # encrypted once more: would make NVFlare ask for a certificate
        return False
    if what in _MEMBERSHIP:  # alone in NVFlare's own encoding
        return bool(kind == (MessageType.REQ if leads else MessageType.REPLY))
    if header(MessageHeaderKey.PAYLOAD_ENCODING) not in _PLAIN:
        return False
    if what == _BYE:
        return kind in (MessageType.REQ, MessageType.REPLY)
    return bool(kind == MessageType.REQ and _is_streamed(message, what))


def _is_streamed(message: Message, what: tuple[Any, Any]) -> bool:
    """Part of one of our calls or answers, in plain bytes, or a word from who gets them on how they arrive."""
    header = message.get_header
    if what == _CHUNK:
        part_of = (header(StreamHeaderKey.CHANNEL), header(StreamHeaderKey.TOPIC))
        return part_of in _OURS and header(StreamHeaderKey.PAYLOAD_ENCODING) in _PLAIN
    # NVFlare would take a failure reported in these ways from anybody, not from the receiver alone.
    if what == _CHUNK_TAKEN:
        return header(StreamHeaderKey.ERROR_MSG) is None
    return what == _CHUNK_REFUSED and header(StreamHeaderKey.FAILED_DESTINATION) is None
