"""Where a mailbox meets NVFlare: a component of its server's or client's own process, on a channel of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.data_event.utils import get_scope_property
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.core_cell import make_reply
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message

from vesica.engines.nvflare.guard import CHANNEL, TOPIC
from vesica.errors import ProtocolError

SCOPE, PROGRAM = "vesica", "program"

Answer = Callable[[str, bytes], bytes]

_log = logging.getLogger(__name__)


class Line:
    """Calls between the host, which is NVFlare's server, and its guests, which are its clients."""

    def __init__(self, cell: Cell, *, host: str) -> None:
        self._cell, self._host = cell, host
        self._answer: Answer | None = None
        self._leave: Callable[[], None] | None = None
        cell.register_request_cb(channel=CHANNEL, topic=TOPIC, cb=self._reply)

    def open(self, answer: Answer, leave: Callable[[], None] | None = None) -> None:
        """From now on `answer` is asked what to say to a caller, whose name the guard has checked.

        `leave` tells the others where this process has to end before its program does.
        """
        self._answer, self._leave = answer, leave

    def leave(self) -> None:
        if self._leave is not None:
            self._leave()

    def _reply(self, request: Message) -> Message:
        origin = str(request.get_header(MessageHeaderKey.ORIGIN))
        try:
            if self._answer is None:
                return make_reply(ReturnCode.SERVICE_UNAVAILABLE)
            said = self._answer(self._host if origin == FQCN.ROOT_SERVER else origin, _bytes_of(request, origin))
        except ProtocolError as error:
            _log.warning("a call was refused: %s", error)
            return make_reply(ReturnCode.INVALID_REQUEST)
        return make_reply(ReturnCode.OK, body=said)

    def call(self, peer: str, note: bytes, seconds: float) -> bytes | None:
        """What a peer answers; None where it cannot be reached in time."""
        reply = self._cell.send_request(
            channel=CHANNEL,
            topic=TOPIC,
            target=FQCN.ROOT_SERVER if peer == self._host else peer,
            request=Message({}, note),
            timeout=seconds,
            optional=True,
        )
        if reply.get_header(MessageHeaderKey.RETURN_CODE) != ReturnCode.OK:
            return None
        return _bytes_of(reply, peer)


def _bytes_of(message: Message, peer: str) -> bytes:
    """A payload is nothing but bytes: `bytes` of a number would be that many of them."""
    if not isinstance(message.payload, bytes | bytearray | memoryview):
        raise ProtocolError(f"'{peer}' made a call that is no bytes: install the same vesica there")
    return bytes(message.payload)


class Component(FLComponent):  # type: ignore[misc]
    """Named in a site's resources.json: runs this process's program in a thread once NVFlare stands."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type != EventType.SYSTEM_START:
            return
        program: Any = get_scope_property(SCOPE, PROGRAM)
        if program is None:
            _log.warning("nothing to do: start this party with `vesica nvflare start`")
            return
        site = fl_ctx.get_prop(FLContextKey.SITE_OBJ)
        threading.Thread(target=program, args=[site], name="vesica", daemon=True).start()
