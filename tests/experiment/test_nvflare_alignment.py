"""Alignment over mailboxes that call each other directly: the ids in common, and who began anew or never came."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from vesica.alignment.programs import Aligned, Alignment
from vesica.data.ids import Rules
from vesica.engines.nvflare.mailbox import Mailbox
from vesica.engines.nvflare.note import State
from vesica.errors import InputError, ProtocolError, VesicaError
from vesica.experiment.alignment_member import AlignmentMember
from vesica.experiment.nvflare_alignment import align_over
from vesica.protocol.journal import Journal

IDS = {"bank": ["a1", "B2", "c3", "d4"], "shop": ["b2 ", "a1", "x", "d4"], "clinic": ["a1", "b2", "c3"]}
Answer = Callable[[str, bytes], bytes]


class Exchange:
    """Connects the lines of all parties."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}

    def line(self, name: str) -> ShortLine:
        return ShortLine(self, name)


class ShortLine:
    """In place of one of NVFlare's."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self.exchange, self.name = exchange, name

    def open(self, answer: Answer, leave: Callable[[], None] | None = None) -> None:
        self.exchange.answers[self.name] = answer

    def call(self, peer: str, note: bytes, seconds: float) -> bytes | None:
        answer = self.exchange.answers.get(peer)
        return None if answer is None else answer(self.name, note)


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    text = ""
    for name, ids in IDS.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["id", *ids]))
        text += f'{"[host]" if name == "bank" else "[[guest]]"}\nname = "{name}"\ntable = "{name}.csv"\nid = "id"\n'
    (tmp_path / "federation.toml").write_text(text)
    return tmp_path / "federation.toml"


def take_part(
    federation: Path,
    name: str,
    exchange: Exchange,
    alignment: Alignment,
    *,
    liveness: float = 5.0,
    arrive: float | None = None,
    wait: float | None = None,
) -> Aligned | VesicaError:
    out = federation.with_name(f"{name}-common.csv") if alignment.reveal == "ids" else None
    member = AlignmentMember.read(federation, name, alignment=alignment, out=out)
    runs = federation.with_name(f"{name}-runs")
    try:
        line = exchange.line(name)
        return align_over(line, member, out=out, runs=runs, liveness=liveness, arrive=arrive, wait=wait)  # type: ignore[arg-type]
    except VesicaError as fault:
        return fault
    finally:
        assert not (runs / ".alignment").exists()


def all_at_once(federation: Path, alignment: Alignment, **options: float) -> dict[str, Aligned | VesicaError]:
    exchange, found = Exchange(), dict[str, Aligned | VesicaError]()

    def be(name: str) -> None:
        found[name] = take_part(federation, name, exchange, alignment, **options)

    threads = [threading.Thread(target=be, args=[name], daemon=True) for name in IDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return {name: found[name] for name in IDS}


def test_three_parties_find_their_common_ids_by_the_rules(federation: Path) -> None:
    for left in IDS:  # by an alignment that was killed
        folder = federation.with_name(f"{left}-runs") / ".alignment"
        folder.mkdir(parents=True)
        (folder / "segment-00000001.log").write_bytes(b"torn")
    found = all_at_once(federation, Alignment(Rules(trim=True, case="lower")))
    assert [each.size for each in found.values()] == [2, 2, 2]
    written = [federation.with_name(f"{name}-common.csv").read_text().splitlines()[1:] for name in IDS]
    assert sorted(zip(*written, strict=True)) == [("B2", "b2 ", "b2"), ("a1", "a1", "a1")]


def test_the_number_alone_writes_no_file(federation: Path) -> None:
    found = all_at_once(federation, Alignment(reveal="size"))
    assert [(each.size, each.rows) for each in found.values()] == [(1, None)] * 3
    assert list(federation.parent.glob("*-common.csv")) == []


def test_the_doctor_speaks_where_few_are_common(federation: Path) -> None:
    found = all_at_once(federation, Alignment(doctor=True))
    assert any("'shop': 1 of theirs have white space around them: use --trim" in hint for hint in found["bank"].hints)
    assert any(hint.startswith("'clinic':") for hint in found["shop"].hints)


def test_a_guest_that_never_comes_is_named_after_the_time_it_had(federation: Path) -> None:
    fault = take_part(federation, "bank", Exchange(), Alignment(), liveness=600.0, arrive=0.5)
    assert isinstance(fault, ProtocolError)
    assert "'shop' has been out of reach for " in str(fault)


def test_a_wait_ends_with_the_name(federation: Path) -> None:
    """The shop, which the host waits for first, is there and says nothing."""
    exchange, found = Exchange(), dict[str, Aligned | VesicaError]()
    shop = Mailbox("shop", "bank", ["bank"], exchange.line("shop").call)
    exchange.line("shop").open(shop.answer)
    shop.resume(Journal(federation.with_name("silence"), ["bank"]))

    def be(name: str) -> None:
        found[name] = take_part(federation, name, exchange, Alignment(), wait=2.0)

    threads = [threading.Thread(target=be, args=[name], daemon=True) for name in ("bank", "clinic")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert "'shop' did not send 'agreement' within 2 s, and nothing goes on without it" in str(found["bank"])
    assert "'bank' has stopped, for a reason that it shows there" in str(found["clinic"])
    shop.close(State.FAILED)


def test_a_guest_that_begins_anew_is_told_that_all_must(federation: Path) -> None:
    """Its first life had answered the host, and its secret is gone."""
    exchange, found = Exchange(), dict[str, Aligned | VesicaError]()
    second = threading.Event()

    def be_bank() -> None:
        found["bank"] = take_part(federation, "bank", exchange, Alignment(), liveness=3.0, arrive=30.0)

    def be_shop() -> None:
        """Dies when it first computes: then the host has its agreement, and has told all how many ids each has."""
        line = exchange.line("shop")
        member = AlignmentMember.read(federation, "shop", alignment=Alignment(), out=federation.with_name("x.csv"))
        with pytest.raises(SystemExit):
            align_over(line, member, out=None, runs=federation.with_name("first"), liveness=3.0, progress=die)  # type: ignore[arg-type]
        second.set()

    def die(*where: object) -> None:
        raise SystemExit

    threads = [threading.Thread(target=be, daemon=True) for be in (be_bank, be_shop)]
    for thread in threads:
        thread.start()
    clinic = threading.Thread(
        target=lambda: found.update(clinic=take_part(federation, "clinic", exchange, Alignment(), liveness=3.0)),
        daemon=True,
    )
    clinic.start()
    assert second.wait(60)
    fault = take_part(federation, "shop", exchange, Alignment(), liveness=3.0)
    assert isinstance(fault, InputError)
    assert "another party has begun the alignment anew" in str(fault)
    assert "give the same command again at every party" in str(fault)
    for thread in (threads[0], clinic):
        thread.join(60)
    assert isinstance(found["bank"], ProtocolError)
    assert "'shop'" in str(found["bank"])
