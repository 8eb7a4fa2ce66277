"""Mutated message frames and post files: each is refused in one sentence, or it is a sound message.

    python -m benchmarks.fuzz --frames 1000000 --envelopes 100000 --seed 0 --json benchmarks/results-fuzz.json

The mutations know the formats. They change prefixes, header fields, dtypes, shapes, wires, names, padding, scales and
signatures, beside plain bits and bytes. The exit code is 1 if anything but the expected error came out, or if memory
grew. The tests run a short version of both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from cryptography.exceptions import InvalidSignature

from benchmarks.__main__ import machine
from vesica.engines.post.envelope import Header, Mark, PostError, seal
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.inbox import Inbox, Letter
from vesica.engines.post.keys import Identity
from vesica.errors import ProtocolError
from vesica.protocol.message import WIRES, Message, decode, encode
from vesica.protocol.wire import DTYPES

LONGEST_SENTENCE = 500  # characters of a refusal, its path left out
MOST_GROWTH = 64  # MiB of peak memory after the first tenth
KEPT = 5  # examples of each fault
FRAME_PREFIX = struct.Struct("<4sHI")
POST_MAGIC, POST_LENGTH, DIGEST, SIGNATURE, TAG = b"vesica post 2\n", struct.Struct("<I"), 32, 64, 16
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 3, 255, 2**31, 2**32, 2**48, 2**53, 2**60, 2**63, 2**64, 10**400),
    *(-0.0, 1.5, 1e300, math.nan, math.inf, "", "x", "../x", "a" * 300, "\ud800", "\n", "\u202e", "é"),
    *(*WIRES, *DTYPES, "complex64", [], [[]], [1], [[[[1]]]], {}, {"x": 1}),
)
HOSTILE_FLOATS = (math.nan, math.inf, -math.inf, -1.0, -0.0, 1e-45, 3.4e38)
NUMBERS = (0, 1, 9, 10, 11, 127, 255, 256, 2**18, 2**18 + 1, 2**31, 2**32 - 1)


@dataclass
class Report:
    """What became of the mutations, counted for each kind of them."""

    tried: Counter[str] = field(default_factory=Counter)  # without those that made a sound original again
    refused: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)  # of faults: what came out, and of which bytes
    growth: float = 0.0  # MiB of peak memory, from a tenth of the way to the end
    seconds: float = 0.0

    def fault(self, kind: str, what: str, data: bytes) -> None:
        self.faults[kind] += 1
        if len(self.examples) < KEPT:
            self.examples.append(f"{kind}: {what} of {data[:4096].hex()}")

    @property
    def mutations(self) -> int:
        return self.tried.total()

    @property
    def sound(self) -> bool:
        return not self.faults and self.growth <= MOST_GROWTH

    def to_json(self) -> dict[str, Any]:
        return {
            "mutations": self.mutations,
            "refused": self.refused.total(),
            "accepted": self.accepted.total(),
            "faults": self.faults.total(),
            "peak_memory_growth_mib": round(self.growth, 1),
            "seconds": round(self.seconds, 1),
            "kinds": {
                kind: {"refused": self.refused[kind], "accepted": self.accepted[kind], "faults": self.faults[kind]}
                for kind in sorted(self.tried)
            },
            "examples": self.examples,
        }


# Bytes of any format


def flip(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = sorted(random.choices(range(len(data) + 1), k=2))
    return data[:start] if random.random() < 0.5 else data[:start] + data[end:]


def insert(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Somewhere, or at the end."""
    place = random.choice((len(data), random.randrange(len(data) + 1)))
    more = random.randint(1, 50)
    return data[:place] + random.choice((bytes(more), random.randbytes(more))) + data[place:]


def overwrite(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """One part of it by another part."""
    one, other, size = random.choices(range(len(data)), k=3)
    return data[:one] + data[other : other + size] + data[one + size :]


def splice(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """The beginning of one and the end of another."""
    other = random.choice(others)
    start, end = random.randrange(len(data) + 1), random.randrange(len(other) + 1)
    return data[:start] + other[random.choice((start, end)) :]


# Frames


def parts_of(frame: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the values of a sound frame."""
    end = FRAME_PREFIX.size + int.from_bytes(frame[6:10], "little")
    return json.loads(frame[10:end]), frame[end + -end % 8 :]


def framed(header: object, values: bytes) -> bytes:
    """A frame whose prefix and padding are right, whatever its header is: text, or a value to write as JSON."""
    text = header if isinstance(header, bytes) else written(header)
    head = FRAME_PREFIX.pack(b"VSCA", 1, len(text)) + text
    return head + bytes(-len(head) % 8) + values if values else head


def written(header: object) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()


def prefix(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    magic, version, length = FRAME_PREFIX.unpack(frame[: FRAME_PREFIX.size])
    match random.randrange(3):
        case 0:
            magic = random.choice((b"VSCB", b"vsca", random.randbytes(4)))
        case 1:
            version = random.choice((0, 2, 256, 65535))
        case 2:
            length = random.choice((*NUMBERS, length - 1, length + 1, len(frame) - 10, len(frame) - 9))
    return FRAME_PREFIX.pack(magic, version, length) + frame[FRAME_PREFIX.size :]


def header_value(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Any value of the header by a hostile one; or a key by another; or a key more or less."""
    header, values = parts_of(frame)
    entry = random.choice(header["tensors"])
    target = random.choice((header, header["scalars"], entry, entry["shape"]))
    keys = list(target) if isinstance(target, dict) else list(range(len(target)))
    if isinstance(target, dict) and random.random() < 0.3:
        new = random.choice(("x", "", "shape", "a" * 129, "\ud800"))
        target[new] = target.pop(random.choice(keys)) if keys and random.random() < 0.5 else random.choice(HOSTILE)
    elif keys:
        key = random.choice(keys)
        if random.random() < 0.2:
            del target[key]
        else:
            target[key] = random.choice(HOSTILE)
    return framed(header, values)


def layout(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """A tensor's dtype, wire or shape by another that could be."""
    header, values = parts_of(frame)
    entry = random.choice(header["tensors"])
    match random.randrange(5):
        case 0:
            entry["dtype"] = random.choice(list(DTYPES))
        case 1:
            entry["wire"] = random.choice((*WIRES, *DTYPES))
        case 2:
            entry["dtype"] = entry["wire"] = random.choice(list(DTYPES))
        case 3:
            random.shuffle(entry["shape"])
            entry["shape"].insert(random.randrange(len(entry["shape"]) + 1), random.choice((0, 1, 2)))
        case 4:
            entry["shape"] = random.choice(([math.prod(entry["shape"])], [2**24] * 2, [2**47, 0], [1] * 9, [-1, -6]))
    return framed(header, values)


def names(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """A tensor twice, in another order, or under the name of another."""
    header, values = parts_of(frame)
    tensors = header["tensors"]
    match random.randrange(3):
        case 0:
            tensors.append(dict(random.choice(tensors)))
            values += values
        case 1:
            random.shuffle(tensors)
        case 2:
            random.choice(tensors)["name"] = random.choice((*(entry["name"] for entry in tensors), "y", "\u200b"))
    return framed(header, values)


def not_canonical(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """The same header, written in another way."""
    header, values = parts_of(frame)
    text = written(header)
    match random.randrange(8):
        case 0:
            text = json.dumps(header, sort_keys=True).encode()
        case 1:
            text = json.dumps(dict(reversed(header.items())), separators=(",", ":")).encode()
        case 2:
            text = text.replace(b'{"kind":', b'{"kind":"x","kind":', 1)
        case 3:
            place = random.randrange(len(text) + 1)
            text = text[:place] + random.choice((b" ", b"\n", b"\t", b"\0", b"/**/")) + text[place:]
        case 4:
            text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            text = b"\xef\xbb\xbf" + text if random.random() < 0.5 else text
        case 5:
            text = text.replace(*random.choice(((b"0.5", b"5e-1"), (b"0.5", b"0.50"), (b"3", b"3.0"), (b"3", b"03"))))
        case 6:
            text = text.replace(*random.choice(((b"\\u00e9", b"\\u00E9"), (b"x", b"\\u0078"), (b"true", b"True"))))
        case 7:
            text = random.choice((b"[", b'{"kind":', b"1", b'"')) * random.randint(1, 60_000)
    return framed(text, values)


def hidden_bytes(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Values that are shifted, or with bytes in a gap, or for a bool or a scale that cannot be."""
    header, values = parts_of(frame)
    head, changed = framed(header, b""), bytearray(values)
    match random.randrange(4):
        case 0:
            return head + bytes(random.randint(0, 15)) + values
        case 1:
            return head + random.randbytes(-len(head) % 8) + values
        case 2 if values:
            changed[random.randrange(len(values))] = random.choice((1, 2, 255))
        case 3 if len(values) >= 4:
            place = random.choice((0, 4 * random.randrange(len(values) // 4)))
            changed[place : place + 4] = struct.pack("<f", random.choice(HOSTILE_FLOATS))
    return framed(header, bytes(changed))


def exchanged(frame: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """The header of one frame and the values of another."""
    header, values = parts_of(frame)
    other_header, other_values = parts_of(random.choice(others))
    header["tensors"] = random.choice((header["tensors"], header["tensors"] + other_header["tensors"]))
    return framed(header, random.choice((other_values, values + other_values)))


Mutation = Callable[[bytes, Sequence[bytes], Random], bytes]
ON_BYTES: tuple[Mutation, ...] = (flip, cut, insert, overwrite, splice)
ON_FRAMES: tuple[Mutation, ...] = (
    *ON_BYTES,
    *(prefix, header_value, layout, names, not_canonical, hidden_bytes, exchanged),
)


def sound_frames() -> list[bytes]:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "x": torch.randn(3, 2, generator=generator),
        "mask": torch.tensor([True, False, True]),
        "n": torch.tensor(5),
        "half": torch.randn(2, generator=generator).bfloat16(),
        "none": torch.zeros(0, 4),
        "wide": torch.randn(2, 3, dtype=torch.float64, generator=generator),
        "small": torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8),
    }
    scalars = {"last": True, "epoch": 3, "rate": 0.5, "note": "é"}
    messages = [Message("state", tensors, scalars), Message("values", {"x": tensors["x"]})]
    return [bytes(encode(message, wire=wire)) for message in messages for wire in WIRES]


def mutate_frames(count: int, *, seed: int) -> Report:
    """Decode `count` mutated frames."""
    random, frames = Random(seed), sound_frames()
    originals = set(frames)

    def attempt(report: Report) -> None:
        mutation = random.choice(ON_FRAMES)
        frame, kind = mutation(random.choice(frames), frames, random), mutation.__name__
        if frame in originals:
            return
        report.tried[kind] += 1
        try:
            message = decode(frame)
            report.accepted[kind] += 1
            if not is_the_frame_of(message, frame):
                report.fault(kind, "accepted, and not the one frame of its message", frame)
        except ProtocolError as fault:
            report.refused[kind] += 1
            if len(str(fault)) > LONGEST_SENTENCE or "\n" in str(fault):
                report.fault(kind, f"no single short sentence: {fault}", frame)
        except Exception as fault:  # counted, shown, and the script's exit code
            report.fault(kind, repr(fault), frame)

    return repeat(attempt, count)


def is_the_frame_of(message: Message, frame: bytes) -> bool:
    """Whether an accepted frame is what its message is encoded to.

    Where values were narrowed that says nothing: there are several frames of one message. Then what came out has to
    travel as it is and come back as the same bits.
    """
    header, _ = parts_of(frame)
    try:
        again = encode(message)
    except ProtocolError:
        return False
    if all(entry["wire"] == entry["dtype"] for entry in header["tensors"]):
        return again == frame
    return encode(decode(again)) == again


# Post files


class Scene:
    """A bank, its inbox, and what a shop and a thief may put into it."""

    def __init__(self, root: Path) -> None:
        self.folders = {name: DeskFolder(root / name) for name in ("bank", "shop", "thief")}
        for name, folder in self.folders.items():
            folder.create(name)
        self.bank = self.folders["bank"]
        self.bank.trust(self.folders["shop"].card("shop"))
        self.me, self.shop, self.thief = (folder.identity() for folder in self.folders.values())
        self.senders = self.bank.cards(["shop"])
        self.mark = self.mark_of("first")
        self.header = Header(self.between(self.mark), "ab" * 32, "shop", "bank", 3, 2, "cd" * 32)
        self.content = bytes(encode(Message("values", {"x": torch.arange(6.0)})))
        self.good = self.sealed(self.header)
        self.signed = {self.good}  # files that the shop did sign for the bank in this run
        self.others = [self.good, *self.of_others()]

    def mark_of(self, run: str, *, method: str = "one-shot") -> Mark:
        cards = [self.me.card, self.shop.card]
        return Mark.of(run, federation={"parties": ["bank", "shop"]}, method={"name": method}, cards=cards)

    def between(self, mark: Mark) -> Mark:
        return mark.between(self.shop, self.me.card)

    def sealed(self, header: Header, *, by: Any = None, to: Any = None) -> bytes:
        return seal(memoryview(self.content), header, sender=by or self.shop, receiver=to or self.me.card)

    def of_others(self) -> list[bytes]:
        """Of another number, session, run or method, sent the other way, and signed by another."""
        more = [replace(self.header, number=4), replace(self.header, held=9), replace(self.header, session="cd" * 32)]
        files = [self.sealed(header) for header in more]
        self.signed.update(files)
        elsewhere = [self.between(self.mark_of("second")), self.between(self.mark_of("first", method="few-shot"))]
        files += [self.sealed(replace(self.header, mark=mark)) for mark in elsewhere]
        back = replace(self.header, sender="bank", receiver="shop")
        files.append(self.sealed(back, by=self.me, to=self.shop.card))
        files.append(self.sealed(self.header, by=self.thief))
        files.append(self.sealed(self.header, to=self.thief.card))
        return files

    def may_be_taken(self, kind: str, letter: Letter, data: bytes) -> bool:
        """Whether the shop signed this very file for the bank, in this run."""
        _, digest, signature, body = edges(data)
        if hashlib.sha256(data[body:]).digest() != data[digest:signature]:
            return False
        try:
            self.shop.signing.public_key().verify(data[signature:body], data[:signature])
        except InvalidSignature:
            return False
        said = letter.header
        meant = (said.sender, said.receiver, said.mark) == ("shop", "bank", self.header.mark)
        return meant and kind in ("header, sealed", "addresses")

    def put(self, data: bytes, name: str) -> Path:
        path = self.bank.inbox / name
        path.unlink(missing_ok=True)  # some disks wait where a file is emptied and written again
        path.write_bytes(data)
        return path


def edges(data: bytes) -> tuple[int, int, int, int]:
    """Where the header, the digest, the signature and the body of a sound file begin."""
    start = len(POST_MAGIC) + POST_LENGTH.size
    digest = start + POST_LENGTH.unpack(data[len(POST_MAGIC) : start])[0]
    return start, digest, digest + DIGEST, digest + DIGEST + SIGNATURE


def with_length(header: bytes) -> bytes:
    return POST_MAGIC + POST_LENGTH.pack(len(header)) + header


def signed(start: bytes, body: bytes, by: Identity) -> bytes:
    """A file whose digest and signature fit its header and its body."""
    said = start + hashlib.sha256(body).digest()
    return said + by.signing.sign(said) + body


def hostile_header(data: bytes, random: Random) -> bytes:
    """The header of a file with a hostile value, a key more or less, or written in another way."""
    start, digest, *_ = edges(data)
    said, key = json.loads(data[start:digest]), None
    match random.randrange(5):
        case 0:
            del said[random.choice(list(said))]
        case 1:
            said[random.choice(("more", "", "path"))] = random.choice(HOSTILE)
        case 2:
            key = random.choice(list(said))
            text = json.dumps(said)
            return (text[:-1] + f', "{key}": {json.dumps(random.choice(HOSTILE))}}}').encode()
        case 3:
            return random.choice((b"[", b'{"run":', b"1", b"\xff")) * random.randint(0, 5000)
        case 4:
            key = random.choice(list(said))
            said[key] = random.choice((*HOSTILE, said[key].upper() if isinstance(said[key], str) else -said[key]))
    return json.dumps(said, sort_keys=True).encode()


ON_FILES = (
    *("bytes", "magic", "length", "header", "header, signed", "header, sealed", "body", "body, signed", "digest"),
    *("tag", "signature", "parts", "signed by another", "addresses", "key"),
)


def mutate_file(scene: Scene, random: Random) -> tuple[str, bytes]:
    """A kind of mutation, and a file."""
    data = random.choice((scene.good, scene.good, random.choice(scene.others)))
    start, digest, signature, body = edges(data)
    kind = random.choice(ON_FILES)
    match kind:
        case "bytes":
            return kind, random.choice(ON_BYTES)(data, scene.others, random)
        case "magic":
            other = random.choice((b"vesica post 1\n", b"VESICA POST 2\n", random.randbytes(14)))
            return kind, other + data[len(POST_MAGIC) :]
        case "length":
            length = random.choice((*NUMBERS, digest - start - 1, digest - start + 1, 4096, 4097, len(data)))
            return kind, POST_MAGIC + POST_LENGTH.pack(length) + data[start:]
        case "header":
            return kind, with_length(hostile_header(data, random)) + data[digest:]
        case "header, signed":
            return kind, signed(with_length(hostile_header(data, random)), data[body:], scene.shop)
        case "header, sealed":
            name = random.choice(("session", "sender", "receiver", "number", "held", "fresh", "mark"))
            if name == "mark":
                part = random.choice(("run", "federation", "method", "cards"))
                changed = replace(scene.header, mark=replace(scene.header.mark, **{part: random.choice(HOSTILE)}))
            else:
                changed = replace(scene.header, **{name: random.choice((*HOSTILE, 3, "shop", "bank", "ab" * 32))})
            return kind, scene.sealed(changed)
        case "body":
            return kind, data[:body] + flip(data[body:], (), random)
        case "body, signed":
            return kind, signed(data[:digest], flip(data[body:], (), random), scene.shop)
        case "digest":
            other = random.choice((bytes(DIGEST), random.randbytes(DIGEST), hashlib.sha256(data).digest()))
            said = data[:digest] + other
            return kind, said + random.choice((data[signature:body], scene.shop.signing.sign(said))) + data[body:]
        case "tag":
            tag = random.choice((bytes(TAG), random.randbytes(TAG), b"", random.randbytes(TAG - 1)))
            other = data[body:-TAG] + tag
            return kind, random.choice((data[:body] + other, signed(data[:digest], other, scene.shop)))
        case "signature":
            other = random.choice((bytes(SIGNATURE), random.randbytes(SIGNATURE), b""))
            return kind, data[:signature] + other + data[body:]
        case "parts":
            other = random.choice(scene.others)
            _, other_digest, other_signature, other_body = edges(other)
            return kind, b"".join(
                file[begin:end]
                for (file, begin, end) in (
                    random.choice(((data, 0, digest), (other, 0, other_digest))),
                    random.choice(((data, digest, signature), (other, other_digest, other_signature))),
                    random.choice(((data, signature, body), (other, other_signature, other_body))),
                    random.choice(((data, body, None), (other, other_body, None))),
                )
            )
        case "signed by another":
            return kind, signed(data[:digest], data[body:], scene.thief)
        case "addresses":
            names = ("bank", "shop", "thief")
            changed = replace(scene.header, sender=random.choice(names), receiver=random.choice(names))
            to = random.choice((scene.me.card, scene.thief.card))
            return kind, scene.sealed(changed, by=random.choice((scene.shop, scene.thief, scene.me)), to=to)
        case _:
            said = json.loads(data[start:digest])
            said["key"] = random.choice((bytes(32), b"\1" + bytes(31), b"\xff" * 32, random.randbytes(32))).hex()
            return kind, signed(with_length(json.dumps(said, sort_keys=True).encode()), data[body:], scene.shop)


def mutate_files(count: int, folder: Path, *, seed: int) -> Report:
    """Put `count` mutated files into an inbox, one after the other, and open what it accepts."""
    random, scene = Random(seed), Scene(folder)
    file_names = (scene.header.file_name, "letter", replace(scene.header, number=4).file_name)

    def attempt(report: Report) -> None:
        kind, data = mutate_file(scene, random)
        if data in scene.signed:
            return
        report.tried[kind] += 1
        path = scene.put(data, random.choice(file_names))
        try:
            inbox = Inbox(scene.bank, scene.mark, scene.me, senders=scene.senders)
            inbox.look()
            letters, sentences = list(inbox.letters()), inbox.refused()
            for letter in letters:
                if bytes(inbox.open(letter)) != scene.content:
                    report.fault(kind, "another message was opened", data)
        except PostError as fault:
            letters, sentences = [], [str(fault)]
        except Exception as fault:  # counted, shown, and the script's exit code
            report.fault(kind, repr(fault), data)
            return
        finally:
            path.unlink()
        if letters:
            report.accepted[kind] += 1
            if not all(scene.may_be_taken(kind, letter, data) for letter in letters):
                report.fault(kind, "accepted, and not what the shop sealed for the bank", data)
        else:
            report.refused[kind] += 1
            if any(len(said) > LONGEST_SENTENCE + len(str(path)) or "\n" in said for said in sentences):
                report.fault(kind, f"no single short sentence: {sentences}", data)

    return repeat(attempt, count)


# The script


def repeat(attempt: Callable[[Report], None], count: int) -> Report:
    """Attempt until `count` mutations changed something; memory counts after the first tenth."""
    report, began = Report(), time.perf_counter()
    before = None
    while report.mutations < count:
        attempt(report)
        if before is None and report.mutations >= count // 10:
            before = peak_memory()
    report.seconds = time.perf_counter() - began
    report.growth = 0.0 if before is None else peak_memory() - before
    return report


def peak_memory() -> float:
    """The most that this process ever had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def table(reports: Mapping[str, Report]) -> str:
    row = "{:<12} {:<18} {:>9} {:>9} {:>7}"
    lines = [row.format("mutated", "kind", "refused", "accepted", "faults")]
    for what, report in reports.items():
        said = report.to_json()
        lines += [row.format(what, kind, *counts.values()) for kind, counts in said["kinds"].items()]
        lines.append(row.format(what, "all", said["refused"], said["accepted"], said["faults"]))
        lines.append(f"{what}: {report.seconds:.1f} s, peak memory grew by {report.growth:.1f} MiB")
        lines += report.examples
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frames", type=int, default=1_000_000, help="mutated message frames")
    parser.add_argument("--envelopes", type=int, default=100_000, help="mutated post files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, with the machine's")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reports = {"frames": mutate_frames(arguments.frames, seed=arguments.seed)}
    with tempfile.TemporaryDirectory() as folder:
        reports["envelopes"] = mutate_files(arguments.envelopes, Path(folder), seed=arguments.seed)
    print(table(reports))
    if arguments.json is not None:
        figures = {name: report.to_json() for name, report in reports.items()}
        arguments.json.write_text(
            json.dumps({"machine": machine(), "seed": arguments.seed, **figures}, indent=2) + "\n"
        )
    return 0 if all(report.sound for report in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
