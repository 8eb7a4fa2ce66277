"""One thread a party, one at a time, in a fixed order; nothing hangs."""

import threading

import pytest
import torch

from vesica.engines import InProcess
from vesica.errors import DeadlockError, InputError, PartyError

PARTIES = ["bank", "shop", "clinic"]


def frame(text: str = "hello") -> memoryview:
    return memoryview(bytearray(text.encode()))


def run(programs, parties=PARTIES, seeds=None):
    engine = InProcess(parties)
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
