"""Who is waited for at the end: not a guest that was left out; nor, once it says so, one that was killed when done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engines.nvflare.organisations import write_tables
from vesica.data.membership import read_membership
from vesica.engines.nvflare.farewell import report_end
from vesica.engines.nvflare.run_file import recall_waiting
from vesica.errors import ProtocolError
from vesica.experiment.member import Member, Plan
from vesica.experiment.nvflare import attend, see_off
from vesica.experiment.post import read_common
from vesica.experiment.result import Result
from vesica.methods.fedonce import FedOnce
from vesica.protocol import Guest


class Wire:
    """What a party has for a line: calls to the others in this process, as long as they are there."""

    there: dict[str, Wire] = {}  # noqa: RUF012

    def __init__(self, me: str) -> None:
        self.me = me
        self.answer: Callable[[str, bytes], bytes] | None = None
        self.there[me] = self

    def open(self, answer: Callable[[str, bytes], bytes], *, leave: object = None) -> None:
        self.answer = answer

    def call(self, peer: str, note: bytes, seconds: float) -> bytes | None:
        other = self.there.get(peer)
        return None if other is None or other.answer is None else other.answer(self.me, note)


class LateGuest:
    """A bank that waits half a second for a shop which sends nothing before it is told to."""

    def __init__(self, root: Path) -> None:
        self.federation, self.root = write_tables(root, ["shop"]), root
        self.wait = 0.5
        self.may_send, self.said = threading.Event(), {"bank": list[str](), "shop": list[str]()}
        self.results: list[Result | None] = []
        self.threads: list[threading.Thread] = []
        self.fault: Exception | None = None

    def folder(self, name: str) -> Path:
        return self.root / "runs" / name

    def attend(self, name: str, *, finish: Callable[[Result | None], None] | None = None) -> None:
        common = read_common(self.root / "common.csv", self.federation, name)
        membership = read_membership(self.federation, name, common=common)
        plan = Plan(FedOnce(guest_epochs=1, host_epochs=1), seed=3, wait=self.wait)
        member = Member(plan, membership, name, common, self.folder(name))
        try:
            finish = finish or self.results.append
            attend(Wire(name), member, finish=finish, liveness=20.0, tell=self.said[name].append)  # type: ignore[arg-type]
        except ProtocolError as fault:
            self.fault = fault

    def start(self, name: str) -> threading.Thread:
        thread = threading.Thread(target=self.attend, args=[name], daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LateGuest]:
    late, guest = LateGuest(tmp_path), FedOnce.guest

    def dawdle(method: FedOnce, me: Guest) -> None:
        late.may_send.wait(60)
        guest(method, me)

    monkeypatch.setattr(FedOnce, "guest", dawdle)
    monkeypatch.setattr("vesica.engines.nvflare.patience.TICK", 0.05)
    monkeypatch.setattr(Wire, "there", {})
    yield late
    late.may_send.set()
    for thread in late.threads:
        thread.join(60)


def die(*told: object) -> None:
    raise KeyboardInterrupt


def test_a_host_does_not_wait_for_a_guest_that_it_left_out_and_both_say_so(late: LateGuest) -> None:
    shop, bank = late.start("shop"), late.start("bank")
    bank.join(60)
    assert not bank.is_alive()
    (result,) = late.results
    assert result is not None
    assert result.missing == ("shop",)
    assert late.said["bank"][-1] == (
        "'shop' was left out and has not ended: nothing here waits for it, and it can be stopped there"
    )
    assert not any("give this command again" in sentence for sentence in late.said["bank"])
    assert recall_waiting(late.folder("bank"))[1] == set()
    late.may_send.set()
    shop.join(60)
    assert not shop.is_alive()
    told = [*late.said["shop"], str(late.fault)]
    assert any("the run without this party" in sentence for sentence in told), told


def test_a_host_that_was_killed_after_it_left_a_guest_out_does_not_wait_for_it_either(
    late: LateGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    late.start("shop")
    with monkeypatch.context() as patch:
        patch.setattr("vesica.experiment.nvflare.keep_waiting", die)
        with pytest.raises(KeyboardInterrupt):
            late.attend("bank")
    late.attend("bank")
    assert recall_waiting(late.folder("bank"))[1] == set()
    assert late.said["bank"][-1].startswith("'shop' was left out")


def test_a_guest_that_was_killed_when_it_had_finished_tells_its_host_by_the_next_command(late: LateGuest) -> None:
    late.wait = 60.0
    late.may_send.set()
    bank = late.start("bank")
    with pytest.raises(KeyboardInterrupt):
        late.attend("shop", finish=die)
    Wire.there.pop("shop")
    bank.join(60)
    assert late.said["bank"][-1].startswith("'shop' left before it had ended")
    (run, hosts), (same, guests) = (recall_waiting(late.folder(name)) for name in ("shop", "bank"))
    assert (hosts, guests, run) == ({"bank"}, {"shop"}, same)
    Wire.there.pop("bank")
    left: list[set[str]] = []
    staying = threading.Thread(
        target=lambda: left.append(see_off(Wire("bank"), late.folder("bank"), seconds=60.0)),  # type: ignore[arg-type]
        daemon=True,
    )
    staying.start()
    assert report_end(Wire("shop").call, "bank", run, seconds=60.0)
    staying.join(30)
    assert left == [set()]
    assert recall_waiting(late.folder("bank"))[1] == set()


def test_a_guest_that_has_told_its_host_keeps_nothing_to_tell(late: LateGuest) -> None:
    late.wait = 60.0
    late.may_send.set()
    bank, shop = late.start("bank"), late.start("shop")
    bank.join(60)
    shop.join(60)
    assert len(late.results) == 2
    assert recall_waiting(late.folder("shop"))[1] == recall_waiting(late.folder("bank"))[1] == set()


def test_a_host_that_is_not_there_is_told_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.engines.nvflare.patience.TICK", 0.01)
    assert not report_end(lambda peer, note, seconds: None, "bank", bytes(16), seconds=0.05)
