"""What each organisation needs for NVFlare: a folder with its certificate, its key and where the server is."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesica.data.text_files import parse_json
from vesica.engines.nvflare.note import LARGEST
from vesica.errors import InputError

COMPONENT = "vesica.engines.nvflare.line.Component"
_LOOPBACK = re.compile(r"127(\.[0-9]{1,3}){3}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_ADDRESS = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")
# A call of the largest frame, and no more than 16 MiB of it under way: what has been sent may still have to arrive.
_COMMUNICATION = {
    "allow_adhoc_conns": False,
    "streaming_max_blob_size": LARGEST + 2**10,
    "streaming_window_size": 2**24,
    "streaming_ack_interval": 2**22,
}
# Every message of a guest that is refused is a line in a log: four logs of at most 30 MiB each.
_ROTATION = {"class": "logging.handlers.RotatingFileHandler", "maxBytes": 10 * 2**20, "backupCount": 2}


@dataclass(frozen=True)
class Kit:
    """A party's folder, as NVFlare's provisioning and `prepare` left it."""

    folder: Path
    name: str
    host: str  # the party whose organisation runs the server
    target: str  # where the server is: address:port

    @property
    def is_host(self) -> bool:
        return self.name == self.host

    @property
    def listen(self) -> str | None:
        """The address that the server binds; None: every one of its machine's."""
        address = self.target.rpartition(":")[0].lower()
        if address == "localhost":
            return "127.0.0.1"
        return address if _LOOPBACK.fullmatch(address) else None

    @classmethod
    def open(cls, folder: Path) -> Kit:
        try:
            values = parse_json((folder / "kit.json").read_text())
            return cls(folder.resolve(), values["name"], values["host"], values["target"])
        except OSError as error:
            raise InputError(
                f"{folder} was not made by `vesica nvflare prepare`: it has no kit.json that can be read "
                f"({error.strerror}); give the prepared folder"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder / 'kit.json'} is torn ({error!r}): take the prepared folder again") from error


def make_kits(host: str, guests: Sequence[str], *, address: str, port: int, out: Path) -> list[Kit]:
    """One folder a party under `out`. The key of the authority that signed the certificates is not kept."""
    for name in (host, *guests):
        if not _NAME.fullmatch(name) or name == "server":
            raise InputError(
                f"party '{name}' cannot be in a certificate: use letters, digits, _ and -, and not 'server'"
            )
        if name != host and name.lower() == address.lower():
            raise InputError(f"party '{name}' has the name of the server's address, which its certificate would prove")
        if (host, *guests).count(name) > 1:
            raise InputError(f"there are two parties '{name}': give each a name of its own")
    if not _ADDRESS.fullmatch(address):
        raise InputError(
            f"'{address}' is no host name and no IPv4 address: say where the guests reach the host's machine"
        )
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"{out} is not empty: give a folder of its own to the prepared ones")
        out.mkdir(parents=True, exist_ok=True)
        out.chmod(0o700)
    except OSError as error:
        raise InputError(f"{out} cannot be made ({error.strerror}): give another folder") from error
    with tempfile.TemporaryDirectory(dir=out) as scratch:  # beside, and for this user alone: private keys
        made = _provision(host, guests, address=address, port=port, scratch=Path(scratch))
        return [_finish(made / name, Kit(out / name, name, host, f"{address}:{port}")) for name in (host, *guests)]


def _provision(host: str, guests: Sequence[str], *, address: str, port: int, scratch: Path) -> Path:
    from nvflare.lighter.entity import Participant, Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.signature import SignatureBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    ports = {"fed_learn_port": port, "admin_port": port}
    server = Participant(
        "server", host, _organisation(host), {**ports, "default_host": address, "host_names": [address]}
    )
    clients = [Participant("client", name, _organisation(name), {}) for name in guests]
    project = Project("vesica", "vertical federated learning", [server, *clients], props={"api_version": 3})
    builders = [WorkspaceBuilder(), StaticFileBuilder(config_folder="config", scheme="grpc"), CertBuilder()]
    log = _Quiet()
    made = Provisioner(str(scratch), [*builders, SignatureBuilder()]).provision(project, logger=log)
    if made.get("build_error"):
        raise InputError(f"NVFlare could not make the certificates ({'; '.join(log.errors)})")
    return scratch / "vesica" / "prod_00"


def _organisation(name: str) -> str:
    """NVFlare's word for it allows letters, digits and underscores."""
    return name.replace("-", "_")


class _Quiet:
    """NVFlare's provisioning prints unless it is given a log."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def debug(self, text: str) -> None: ...

    def info(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...

    def error(self, text: str) -> None:
        self.errors.append(text)


def _finish(made: Path, kit: Kit) -> Kit:
    """NVFlare's folder without what starts it another way, its log in a file, no jobs, our component."""
    for path in [*made.glob("startup/*.sh"), made / "readme.txt", *made.glob("local/*.sample")]:
        path.unlink()
    log = json.loads((made / "local" / "log_config.json.default").read_text())
    log["handlers"].pop("consoleHandler")
    for handler in log["handlers"].values():
        handler.update(_ROTATION)
    for logger in log["loggers"].values():
        logger["handlers"] = [name for name in logger["handlers"] if name != "consoleHandler"]
    _write(made / "local" / "log_config.json", log)
    _write(made / "local" / "resources.json", _resources(kit))
    _write(made / "local" / "comm_config.json", _COMMUNICATION)
    _write(made / "kit.json", {"name": kit.name, "host": kit.host, "target": kit.target})
    for path in [made, *made.rglob("*")]:  # each of them: a copy elsewhere may have no folder around it
        path.chmod(0o700 if path.is_dir() else 0o600)
    shutil.move(made, kit.folder)
    return kit


def _resources(kit: Kit) -> dict[str, Any]:
    """No job manager and no launcher: no job can be run here; and none could load any class but ours."""
    allowed = {"format_version": 2, "class_list_enforcement_mode": "enforce", "class_allow_list": [COMPONENT]}
    component = {"id": "vesica", "path": COMPONENT, "args": {}}
    servers = [{"admin_storage": "transfer", "max_num_clients": 1000, "heart_beat_timeout": 600, "admin_timeout": 10.0}]
    site = {"servers": servers} if kit.is_host else {"client": {"retry_timeout": 30}, "allow_log_streaming": False}
    return {**allowed, **site, "components": [component]}


def _write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n")
