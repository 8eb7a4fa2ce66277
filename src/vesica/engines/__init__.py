"""What carries the messages."""

from vesica.engines.in_process import InProcess
from vesica.engines.nvflare.mailbox import Mailbox
from vesica.engines.post.desk import Desk

__all__ = ["ENGINES", "InProcess"]

ENGINES = {"in-process": InProcess, "nvflare": Mailbox, "post": Desk}
