"""Imports for a process that will be forked many times, without any of the work that needs them.

What torch imports on first use takes seconds, and should not be repeated in every fork. But the work itself must not be
done before a fork: MKL's allocator then remembers threads that a fork does not have, and now and then looks for them
for ever.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable


def import_what_is_needed_by(work: Callable[[], object]) -> None:
    """Do some work in a process of its own, and import here what it has imported."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            work()
            with os.fdopen(writing, "w") as file:
                json.dump(list(sys.modules), file)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit("the work failed")
    for name in json.loads(text):
        if name not in sys.modules:
            with contextlib.suppress(ImportError):  # an alias, or a part of a compiled module
                importlib.import_module(name)
