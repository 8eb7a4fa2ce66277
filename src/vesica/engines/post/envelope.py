"""One message as one file: what it is about in the clear, the message encrypted, all of it signed.

    "vesica post 2\n"                         14 bytes
    the header's length                        4 bytes, little-endian
    the header: JSON, in UTF-8                 who to whom, which run, which number, the body's size
    the body's digest                          32 bytes, SHA-256
    the signature                              64 bytes, Ed25519 by the sender, of everything before it
    the body                                   the message, ChaCha20-Poly1305, its tag of 16 bytes last

What the sender signed comes first, so that a few thousand bytes tell whether a file is worth reading. The body is
checked piece by piece.

The key of the body is HKDF-SHA256 of X25519 between the one-time key of the header ("key") and the receiver's. It
encrypts this one body, so its nonce is zero. What stands before the digest is its associated data.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from reprlib import repr as short  # what a stranger wrote may be long
from typing import TYPE_CHECKING, Any, NoReturn

from vesica.engines.post.keys import KEY, NAME, Card, Identity
from vesica.errors import ProtocolError
from vesica.protocol.message import MAX_FRAME

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

FAMILY = b"vesica post "
MAGIC = FAMILY + b"2\n"
LENGTH = struct.Struct("<I")
PREFIX = len(MAGIC) + LENGTH.size
TAG, DIGEST, SIGNATURE = 16, 32, 64
MAX_HEADER = 4096
MAX_BODY = MAX_FRAME + TAG
PIECE = 2**20
COUNTS = range(2**53)
SIZES = range(TAG, MAX_BODY + 1)
NONCE = bytes(12)
FRESH = re.compile(rf"(?:{KEY.pattern})?")
FILE_NAME = re.compile(rf"(?:{NAME.pattern}\.){{3}}[0-9]{{6,16}}\.post")


class PostError(ProtocolError):
    """A file that is not the one it should be, or should not be there."""


@dataclass(frozen=True)
class Mark:
    """What every file of a run bears, so that no other run takes it: its name, and digests of what all agreed on.

    Settings can be guessed, and a digest then tells that the guess is right: in a file stands the mark `between` its
    two parties, which nobody else can compute.
    """

    run: str
    federation: str  # of the settings that all parties share
    method: str  # of the method and its settings
    cards: str  # of all parties' public keys

    @classmethod
    def of(cls, run: str, *, federation: Mapping[str, Any], method: Mapping[str, Any], cards: Sequence[Card]) -> Mark:
        keys = [card.to_text() for card in sorted(cards, key=lambda card: card.name)]
        return cls(run, _digest(federation), _digest(method), _digest(keys))

    def between(self, me: Identity, other: Card) -> Mark:
        """The mark under a key that only the two can know."""
        key = _derive(me.shared_with(other), MAGIC + b"settings")
        federation, method = (
            hmac.digest(key, f"{self.run} {name} {digest}".encode(), "sha256").hex()
            for name, digest in (("federation", self.federation), ("method", self.method))
        )
        return Mark(self.run, federation, method, self.cards)

    def differs(self, other: Mark) -> str | None:
        """How another mark differs, in words; where cards do, nothing is known of the rest."""
        if other.cards != self.cards:
            return f"of a run '{self.run}' with other cards of the parties than here"
        means = {
            "federation": "settings of the federation (parties, task, metric, test rows, labels)",
            "method": "settings of the method, or of another method,",
        }
        found = [words for name, words in means.items() if getattr(other, name) != getattr(self, name)]
        return f"of a run '{self.run}' with other {' and '.join(found)} than here" if found else None


@dataclass(frozen=True)
class Header:
    """What can be read from the outside."""

    mark: Mark
    session: str  # drawn by the host when the run begins: files of an earlier run of the same name are of another
    sender: str
    receiver: str
    number: int  # of this message, from 1, among those of the sender to the receiver
    held: int  # so many messages of the receiver the sender has for good
    fresh: str  # drawn by the guest of the two; in the host's messages "" until it has heard it
    key: str = ""  # a public key that is used once
    size: int = 0  # of the body

    @property
    def file_name(self) -> str:
        return file_name(self.mark.run, self.sender, self.receiver, self.number)

    def to_bytes(self) -> bytes:
        said = {**asdict(self.mark), **{name: value for name, value in vars(self).items() if name != "mark"}}
        text = json.dumps(said, sort_keys=True).encode()
        return MAGIC + LENGTH.pack(len(text)) + text


@dataclass(frozen=True)
class Envelope:
    """A file without its body; until it is checked, whoever it says that it is from may not have signed it."""

    path: Path
    header: Header
    start: bytes  # all before the digest
    digest: bytes  # of the body
    signature: bytes

    @classmethod
    def read(cls, path: Path) -> Envelope:
        """Read the first few thousand bytes alone; sizes, names and numbers are checked before they are used."""
        found = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(PREFIX)
            if start.startswith(FAMILY) and not start.startswith(MAGIC):
                raise PostError(
                    f"{path} is a message in another version of the format: use the same version of Vesica at all "
                    "parties and have it sent again, or remove it"
                )
            if not start.startswith(MAGIC):
                _refuse(path, "no message of this version of Vesica")
            length = LENGTH.unpack(start[len(MAGIC) :])[0] if len(start) == PREFIX else 0
            if not 0 < length <= MAX_HEADER:
                _refuse(path, "damaged: the sizes in it cannot be")
            if found < PREFIX + length + DIGEST + SIGNATURE:
                _refuse(path, f"cut short after {found:,} bytes")
            start += file.read(length)
            digest, signature = file.read(DIGEST), file.read(SIGNATURE)
        header = _parse(path, start[PREFIX:])
        if named(path) not in (None, header.file_name):
            _refuse(path, f"{header.file_name} under another one's name")
        envelope = cls(path, header, start, digest, signature)
        if found < envelope.body + header.size:
            _refuse(path, f"cut short after {found:,} bytes")
        if found > envelope.body + header.size:
            _refuse(path, "damaged: the sizes in it cannot be")
        return envelope

    @property
    def body(self) -> int:
        """Where it begins."""
        return len(self.start) + DIGEST + SIGNATURE

    def check(self, sender: Card) -> None:
        """Refuse what was not signed by the sender, as a whole; the body is read only if the rest was."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(sender.signs).verify(self.signature, self.start + self.digest)
        except InvalidSignature:
            _refuse(self.path, f"not signed by '{sender.name}', or was changed on its way")
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            file.seek(self.body)
            while piece := file.read(PIECE):
                digest.update(piece)
        if digest.digest() != self.digest:
            _refuse(self.path, f"of '{sender.name}' and was changed on its way")

    def open(self, me: Identity) -> memoryview:
        """The message in it, for the one it was encrypted to."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        once = bytes.fromhex(self.header.key)
        try:
            shared = me.opening.exchange(X25519PublicKey.from_public_bytes(once))
            cipher = _cipher(shared, once, me.card.opens)
            return memoryview(bytearray(cipher.decrypt(NONCE, self._read_body(), self.start)))
        except (InvalidTag, ValueError):  # which says no more than that
            _refuse(
                self.path, f"of '{self.header.sender}' and not encrypted to the card of '{me.name}' that is used here"
            )

    def _read_body(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.body)
            return file.read(self.header.size)


def seal(frame: memoryview, header: Header, *, sender: Identity, receiver: Card) -> bytes:
    """The file of a message; its header gets a key that is used once."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    secret = X25519PrivateKey.generate()
    once = secret.public_key().public_bytes_raw()
    start = replace(header, key=once.hex(), size=len(frame) + TAG).to_bytes()
    cipher = _cipher(secret.exchange(X25519PublicKey.from_public_bytes(receiver.opens)), once, receiver.opens)
    body = cipher.encrypt(NONCE, bytes(frame), start)
    signed = start + hashlib.sha256(body).digest()
    return b"".join((signed, sender.signing.sign(signed), body))


def file_name(run: str, sender: str, receiver: str, number: int) -> str:
    return f"{run}.{sender}.{receiver}.{number:06d}.post"


def named(path: Path) -> str | None:
    """The name of a message, if the file has one of that form; it may have been given any other on its way."""
    return path.name if FILE_NAME.fullmatch(path.name) else None


def _cipher(shared: bytes, once: bytes, receiver: bytes) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(_derive(shared, MAGIC + once + receiver))


def _derive(shared: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=info).derive(shared)


def _parse(path: Path, text: bytes) -> Header:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    texts = {"run": NAME, "federation": KEY, "method": KEY, "cards": KEY, "session": KEY, "key": KEY}
    texts |= {"sender": NAME, "receiver": NAME, "fresh": FRESH}
    if not isinstance(said, dict) or said.keys() != texts.keys() | {"number", "held", "size"}:
        _refuse(path, "damaged: its header cannot be read")
    for name, pattern in texts.items():
        if not isinstance(said[name], str) or not pattern.fullmatch(said[name]):
            _refuse(path, f"damaged: its {name} is {short(said[name])}")
    for name, counts in {"number": COUNTS, "held": COUNTS, "size": SIZES}.items():
        if type(said[name]) is not int or said[name] not in counts:
            _refuse(path, f"damaged: its {name} is {short(said[name])}")
    mark = Mark(**{name: said.pop(name) for name in ("run", "federation", "method", "cards")})
    return Header(mark, **said)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _refuse(path: Path, what: str) -> NoReturn:
    raise PostError(f"{path} is {what}: have it sent again, or remove it")
