"""The NVFlare engine: frames between organisations over NVFlare's own connections, under mutual TLS."""

from importlib.util import find_spec

from vesica.errors import InputError


def need_nvflare() -> None:
    if find_spec("nvflare") is None:
        raise InputError("NVFlare is not installed: pip install 'vesica[nvflare]'")
