"""What carries the messages."""

from vesica.engines.in_process import InProcess

__all__ = ["ENGINES", "InProcess"]

ENGINES = {"in-process": InProcess}
