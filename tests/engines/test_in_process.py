"""One thread a party, one at a time, in a fixed order; nothing hangs."""

import threading

import pytest
import torch

from conversations import HandClock
from vesica.engines import InProcess
from vesica.errors import DeadlockError, InputError, LateError, PartyError

PARTIES = ["bank", "shop", "clinic"]


def frame(text: str = "hello") -> memoryview:
    return memoryview(bytearray(text.encode()))


def run(programs, parties=PARTIES, seeds=None, clock=None):
    engine = InProcess(parties) if clock is None else InProcess(parties, clock=clock)
    bound = {party: (lambda party=party: programs[party](engine)) for party in parties}
    return engine.run(bound, seeds or dict.fromkeys(parties, 0))


def wait_for(receiver: str, sender: str, kind: str = "values"):
    return lambda engine: engine.collect(receiver, sender, 1, kind)


def test_a_deadlock_is_reported_not_hung_with_who_waits_for_whom() -> None:
    programs = {
        "bank": wait_for("bank", "shop", "representations"),
        "shop": wait_for("shop", "bank", "gradients"),
        "clinic": lambda engine: None,
    }
    with pytest.raises(DeadlockError) as error:
        run(programs)
    assert "'bank' waits for 'representations' from 'shop'" in str(error.value)
    assert "'shop' waits for 'gradients' from 'bank'" in str(error.value)
    assert "clinic" not in str(error.value)


def test_a_wait_for_a_party_that_has_ended_says_so() -> None:
    programs = {"bank": wait_for("bank", "shop"), "shop": lambda engine: None, "clinic": lambda engine: None}
    with pytest.raises(DeadlockError, match=r"'bank' waits for 'values' from 'shop' \(who has ended\)"):
        run(programs)


def test_an_exception_ends_the_run_with_the_partys_name_and_releases_the_others() -> None:
    def broken(engine):
        raise ZeroDivisionError("by zero")

    programs = {"bank": wait_for("bank", "shop"), "shop": broken, "clinic": wait_for("clinic", "bank")}
    with pytest.raises(PartyError, match="shop: failed with ZeroDivisionError: by zero") as error:
        run(programs)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert not {thread.name for thread in threading.enumerate()} & set(PARTIES)


def test_a_vesica_error_keeps_its_type_and_gains_the_name() -> None:
    def broken(engine):
        raise InputError("has no rows")

    with pytest.raises(InputError, match=r"^clinic: has no rows$"):
        run({"bank": lambda engine: None, "shop": lambda engine: None, "clinic": broken})


def test_one_party_runs_at_a_time_in_the_same_order_every_time() -> None:
    def trace() -> list[str]:
        order: list[str] = []
        running: set[str] = set()

        def guest(name: str):
            def program(engine):
                for i in range(3):
                    assert not running
                    running.add(name)
                    order.append(f"{name} {i}")
                    running.discard(name)
                    engine.deliver(name, "bank", i + 1, frame())
                    engine.collect(name, "bank", i + 1, "values")

            return program

        def host(engine):
            for i in range(3):
                for name in ("shop", "clinic"):
                    engine.collect("bank", name, i + 1, "values")
                order.append(f"bank {i}")
                for name in ("shop", "clinic"):
                    engine.deliver("bank", name, i + 1, frame())

        run({"bank": host, "shop": guest("shop"), "clinic": guest("clinic")})
        return order

    first = trace()
    assert first == trace()
    assert first == [f"{party} {i}" for i in range(3) for party in ("shop", "clinic", "bank")]


def test_a_partys_random_numbers_do_not_depend_on_what_the_others_draw() -> None:
    def draws(clinic_draws: int) -> torch.Tensor:
        def shop(engine):
            first = torch.randn(4)
            engine.deliver("shop", "bank", 1, frame())
            engine.collect("shop", "bank", 1, "values")
            return torch.cat([first, torch.randn(4)])

        def clinic(engine):
            torch.randn(clinic_draws)

        def host(engine):
            engine.collect("bank", "shop", 1, "values")
            torch.randn(clinic_draws)
            engine.deliver("bank", "shop", 1, frame())

        programs = {"bank": host, "shop": shop, "clinic": clinic}
        return run(programs, seeds={"bank": 1, "shop": 2, "clinic": 3})["shop"]

    expected = torch.randn(8, generator=torch.Generator().manual_seed(2))
    assert torch.equal(draws(1)[:4], expected[:4])
    assert torch.equal(draws(1), draws(1000))


def test_the_callers_random_state_is_left_as_it_was() -> None:
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    run(dict.fromkeys(PARTIES, lambda engine: torch.randn(100)))
    assert torch.equal(torch.randn(3), expected)


def test_what_programs_return_comes_back_by_party() -> None:
    programs = {party: (lambda engine, party=party: party.upper()) for party in PARTIES}
    assert run(programs) == {"bank": "BANK", "shop": "SHOP", "clinic": "CLINIC"}


def test_an_interruption_ends_every_party_before_it_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C does: the caller stops waiting, and no thread goes on in the background."""
    engine = InProcess(PARTIES)
    steps = 0

    def busy() -> None:
        nonlocal steps
        while True:
            steps += 1
            engine.check()

    def interrupted() -> None:
        while not steps:
            pass
        raise KeyboardInterrupt

    monkeypatch.setattr(engine._over, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.run({"bank": busy, "shop": busy, "clinic": busy}, dict.fromkeys(PARTIES, 0))
    assert not {thread.name for thread in threading.enumerate()} & set(PARTIES)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_partys_random_numbers_on_the_gpu_are_its_own_too() -> None:
    def draws(others: int) -> torch.Tensor:
        def shop(engine):
            first = torch.randn(4, device="cuda")
            engine.deliver("shop", "bank", 1, frame())
            engine.collect("shop", "bank", 1, "values")
            return torch.cat([first, torch.randn(4, device="cuda")]).cpu()

        def host(engine):
            engine.collect("bank", "shop", 1, "values")
            torch.randn(others, device="cuda")
            engine.deliver("bank", "shop", 1, frame())

        return run({"bank": host, "shop": shop}, parties=["bank", "shop"], seeds={"bank": 1, "shop": 2})["shop"]

    torch.zeros(1, device="cuda")
    assert torch.equal(draws(1), draws(1000))


def sends_after(clock: HandClock, party: str, seconds: float):
    """A guest that works for so long, sends a message to the host, and waits for its answer."""

    def program(engine):
        clock.work(seconds)
        engine.deliver(party, "bank", 1, frame(party))
        engine.collect(party, "bank", 1, "goodbye")
        return engine.now(party)

    return program


def takes(clock: HandClock, *, within: float | None, own: float = 0.0):
    """A host that works for `own`, takes what comes in time, and says goodbye to all."""

    def program(engine):
        clock.work(own)
        came = []
        for guest in ("shop", "clinic"):
            try:
                came.append(bytes(engine.collect("bank", guest, 1, "values", within=within)).decode())
            except LateError:
                came.append("late")
        for guest in ("shop", "clinic"):
            engine.deliver("bank", guest, 1, frame())
        return came, engine.now("bank")

    return program


@pytest.mark.parametrize(
    ("shop", "clinic", "within", "own", "came", "then"),
    [
        (3.0, 4.0, 5.0, 0.0, ["shop", "clinic"], 4.0),  # side by side: 7 s of work take 4
        (5.0, 4.0, 5.0, 0.0, ["shop", "clinic"], 5.0),
        (6.0, 4.0, 5.0, 0.0, ["late", "clinic"], 5.0),
        (6.0, 12.0, 5.0, 0.0, ["late", "late"], 10.0),  # each wait has its own time
        (6.0, 4.0, 5.0, 2.0, ["shop", "clinic"], 6.0),  # the host's own work gives the guests time
        (6.0, 4.0, 0.0, 8.0, ["shop", "clinic"], 8.0),
        (6.0, 9.0, None, 0.0, ["shop", "clinic"], 9.0),
    ],
)
def test_who_is_late_is_decided_as_if_the_parties_ran_side_by_side(shop, clinic, within, own, came, then) -> None:
    clock = HandClock()
    programs = {
        "bank": takes(clock, within=within, own=own),
        "shop": sends_after(clock, "shop", shop),
        "clinic": sends_after(clock, "clinic", clinic),
    }
    ended = run(programs, clock=clock)
    assert ended == {"bank": (came, then), "shop": max(shop, then), "clinic": max(clinic, then)}


def test_a_wait_with_an_end_is_late_and_no_deadlock_where_nobody_goes_on() -> None:
    clock = HandClock()
    silent = {party: wait_for(party, "bank", "goodbye") for party in ("shop", "clinic")}
    ended = run({"bank": takes(clock, within=2.0), **silent}, clock=clock)
    assert ended["bank"] == (["late", "late"], 4.0)


def test_of_several_waits_the_first_to_end_ends_first() -> None:
    """The shop gives the clinic up after 3 s and writes to the bank, which waits for 5."""
    clock = HandClock()

    def shop(engine):
        with pytest.raises(LateError):
            engine.collect("shop", "clinic", 1, "values", within=3.0)
        engine.deliver("shop", "bank", 1, frame("shop"))

    def bank(engine):
        return bytes(engine.collect("bank", "shop", 1, "values", within=5.0)), engine.now("bank")

    assert run({"bank": bank, "shop": shop, "clinic": lambda engine: None}, clock=clock)["bank"] == (b"shop", 3.0)


def test_a_late_message_names_who_and_what_is_late() -> None:
    late = {"bank": lambda engine: engine.collect("bank", "shop", 1, "representations", within=1.0)}
    with pytest.raises(LateError, match=r"^bank: 'shop' did not send 'representations' in time$"):
        run({**late, "shop": lambda engine: None, "clinic": lambda engine: None})


def meets(party: str, together):
    """Comes with the party's name as its work, and draws before and after."""

    def program(engine):
        drawn = torch.rand(1).item()
        engine.meet(party, party, together)
        return drawn, torch.rand(1).item()

    return program


def test_who_meets_waits_for_all_who_can_come_and_one_does_the_work_of_all() -> None:
    done: list[tuple[str, list[str]]] = []

    def together(works) -> None:
        done.append((threading.current_thread().name, list(works)))

    def bank(engine) -> None:
        engine.collect("bank", "clinic", 1, "question")
        engine.deliver("bank", "clinic", 1, frame())
        engine.collect("bank", "clinic", 2, "values")  # the shop, who waits already, is next in order

    def clinic(engine) -> None:
        engine.deliver("clinic", "bank", 1, frame())
        engine.collect("clinic", "bank", 1, "answer")
        engine.meet("clinic", "clinic", together)
        assert len(done) == 1
        engine.deliver("clinic", "bank", 2, frame())

    run({"bank": bank, "shop": meets("shop", together), "clinic": clinic})
    assert done == [("shop", ["shop", "clinic"])]


def test_nobodys_random_numbers_are_moved_by_the_work_of_all() -> None:
    seeds = {"bank": 0, "shop": 1, "clinic": 2}

    def draw(works) -> None:
        torch.rand(7)

    found = run({party: meets(party, draw) for party in PARTIES}, seeds=seeds)
    for party, seed in seeds.items():
        torch.manual_seed(seed)
        assert found[party] == (torch.rand(1).item(), torch.rand(1).item())


def test_different_work_is_done_apart() -> None:
    done: list[list[str]] = []

    def one(works) -> None:
        done.append(["one", *works])

    def other(works) -> None:
        done.append(["other", *works])

    run({"bank": meets("bank", one), "shop": meets("shop", other), "clinic": meets("clinic", one)})
    assert done == [["one", "bank", "clinic"], ["other", "shop"]]


def test_parties_may_meet_again() -> None:
    done: list[list[str]] = []

    def note(works) -> None:
        done.append(list(works))

    def twice(party: str):
        return lambda engine: [engine.meet(party, f"{party} {time}", note) for time in (1, 2)]

    run({party: twice(party) for party in PARTIES})
    assert done == [[f"{party} {time}" for party in PARTIES] for time in (1, 2)]


@pytest.mark.parametrize(("within", "then"), [(6.0, 5.0), (4.0, None)])
def test_a_meeting_comes_before_any_deadline_and_takes_everyones_time(within: float, then: float | None) -> None:
    clock = HandClock()

    def work(works) -> None:
        clock.work(5.0)

    def guest(party: str):
        def program(engine) -> None:
            engine.meet(party, party, work)
            engine.deliver(party, "bank", 1, frame())

        return program

    def bank(engine) -> float | None:
        try:
            engine.collect("bank", "clinic", 1, "values", within=within)
        except LateError:
            return None
        return engine.now("bank")

    assert run({"bank": bank, "shop": guest("shop"), "clinic": guest("clinic")}, clock=clock)["bank"] == then


def test_a_failure_of_the_common_work_ends_the_run_and_releases_those_who_wait_for_it() -> None:
    def broken(works) -> None:
        raise ZeroDivisionError("by zero")

    programs = {"bank": wait_for("bank", "shop"), "shop": meets("shop", broken), "clinic": meets("clinic", broken)}
    with pytest.raises(PartyError, match="shop or clinic: failed with ZeroDivisionError: by zero"):
        run(programs)
    assert not {thread.name for thread in threading.enumerate()} & set(PARTIES)
