"""The NVFlare engine: frames between organisations over NVFlare's own connections, under mutual TLS."""

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

from vesica.errors import InputError


def need_nvflare() -> None:
    """There, and one whose messages the guard can check."""
    if find_spec("nvflare") is None:
        raise InputError("NVFlare is not installed: pip install 'vesica[nvflare]'")
    try:
        import_module("vesica.engines.nvflare.guard")
    except ImportError as error:
        found = f"NVFlare {version('nvflare')} is not one that can be guarded here ({error})"
        raise InputError(f"{found}: pip install 'vesica[nvflare]'") from error
