"""Who a party is to the others: secret keys in a file of its own, and the public card it gives away."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesica.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # of a party, and of a run
KEY = re.compile("[0-9a-f]{64}")
LONGEST = 4096  # bytes of a card, and of an identity
FORMAT = 1


def require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as missing:
        raise InputError("the post engine needs the package cryptography: pip install 'vesica[post]'") from missing


@dataclass(frozen=True)
class Card:
    """What a party gives to its partners: its name, and its two public keys."""

    name: str
    signs: bytes  # Ed25519: what it signs is checked with this
    opens: bytes  # X25519: what is encrypted to this, it alone can open

    @property
    def fingerprint(self) -> str:
        """160 bits in groups of four, to be read out on the telephone."""
        digest = hashlib.sha256(b"vesica card 1\n" + self.name.encode() + b"\n" + self.signs + self.opens).hexdigest()
        return " ".join(digest[start : start + 4] for start in range(0, 40, 4))

    def to_text(self) -> str:
        return _text({"card": FORMAT, "name": self.name, "signs": self.signs.hex(), "opens": self.opens.hex()})

    @classmethod
    def read(cls, path: Path) -> Card:
        said = _read(path, "card")
        return cls(said["name"], bytes.fromhex(said["signs"]), bytes.fromhex(said["opens"]))


@dataclass(frozen=True)
class Identity:
    """A party's own two secret keys, and the card that goes with them."""

    card: Card
    signing: Ed25519PrivateKey
    opening: X25519PrivateKey

    @property
    def name(self) -> str:
        return self.card.name

    def shared_with(self, other: Card) -> bytes:
        """A secret that only the two can compute, each from its own keys and the other's card."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return self.opening.exchange(X25519PublicKey.from_public_bytes(other.opens))
        except ValueError as fault:  # a point of small order
            raise InputError(f"the card of '{other.name}' has a key that hides nothing: do not trust it") from fault

    @classmethod
    def create(cls, path: Path, name: str) -> Identity:
        """Draw new keys and keep them in a file that its owner alone can read; one that is there is not replaced."""
        require_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        check_name(name, "a party")
        signing, opening = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        secrets = {"signs": signing.private_bytes_raw().hex(), "opens": opening.private_bytes_raw().hex()}
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InputError(f"{path} holds an identity already: keep it, or give another desk") from None
        with os.fdopen(handle, "w") as file:
            file.write(_text({"identity": FORMAT, "name": name, **secrets}))
            file.flush()
            os.fsync(file.fileno())
        return cls._of(name, signing, opening)

    @classmethod
    def read(cls, path: Path) -> Identity:
        require_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if not path.exists():
            raise InputError(f"there is no {path}: begin with `vesica post init --as NAME --desk {path.parent}`")
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            raise InputError(
                f"{path} holds secret keys and others can read it (mode {mode:04o}): if none has, chmod 600 it"
            )
        said = _read(path, "identity")
        signing = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(said["signs"]))
        return cls._of(said["name"], signing, X25519PrivateKey.from_private_bytes(bytes.fromhex(said["opens"])))

    @classmethod
    def _of(cls, name: str, signing: Ed25519PrivateKey, opening: X25519PrivateKey) -> Identity:
        public = signing.public_key().public_bytes_raw(), opening.public_key().public_bytes_raw()
        return cls(Card(name, *public), signing, opening)


def check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise InputError(f"{what} cannot be called {name!r}: use at most 64 letters, digits, '_' and '-'")


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=1) + "\n"


def _read(path: Path, what: str) -> dict[str, str]:
    """The values of a card or of an identity, of which the secret ones are in no sentence."""
    if not path.is_file():
        raise InputError(f"there is no {what} {path}: correct the path")
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(LONGEST + 1))
    except (OSError, ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.keys() != {what, "name", "signs", "opens"} or said[what] != FORMAT:
        raise InputError(f"{path} is no {what} of this version of Vesica: have it sent again")
    texts = {key: value for key, value in said.items() if key != what and isinstance(value, str)}
    if len(texts) < 3 or not KEY.fullmatch(texts["signs"]) or not KEY.fullmatch(texts["opens"]):
        raise InputError(f"{path} is a {what} whose name or keys are damaged: have it sent again")
    check_name(texts["name"], f"the party of {path}")
    return texts
