"""What a link sends, counts and refuses."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from conversations import HandClock, Talk
from vesica.engines import InProcess
from vesica.errors import BudgetError, InputError, LateError, ProtocolError
from vesica.protocol import Budget, Ledger, Link, Message
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation
from vesica.protocol.message import encode


def test_a_message_arrives_as_it_was_sent_and_no_tensor_is_shared() -> None:
    original = torch.arange(6.0).reshape(2, 3).requires_grad_()

    def host(links):
        message = links["shop"].receive("representations")
        message.tensor.fill_(-1)
        return message

    talk = Talk(["bank", "shop"])
    message = talk.run(
        {
            "bank": host,
            "shop": lambda links: links["bank"].send("representations", original, scalars={"epoch": 3, "last": True}),
        }
    )["bank"]
    assert message.scalars == {"epoch": 3, "last": True}
    assert not message.tensor.requires_grad
    assert torch.equal(original.detach(), torch.arange(6.0).reshape(2, 3))


def test_the_ledger_of_both_sides_says_what_the_transport_carried() -> None:
    talk = Talk(["bank", "shop", "clinic"])
    values = torch.randn(50, 8)

    def guest(links):
        links["bank"].send("representations", values)
        return links["bank"].receive("gradients", shape=(50, 8))

    def host(links):
        for name in ("shop", "clinic"):
            links[name].receive("representations")
        for name in ("shop", "clinic"):
            links[name].send("gradients", values)

    talk.run({"bank": host, "shop": guest, "clinic": guest})
    assert talk.ledger("bank").wire == talk.engine.carried
    assert talk.ledger("bank").payload == 4 * 50 * 8 * 4
    assert talk.ledger("bank").wire == talk.ledger("shop").wire + talk.ledger("clinic").wire
    assert talk.ledger("bank").rounds == talk.ledger("shop").rounds == 2


@pytest.mark.parametrize(("wire", "bytes_a_value"), [("float32", 4), ("float16", 2), ("bfloat16", 2), ("int8", 1)])
def test_a_narrower_wire_costs_fewer_bytes_and_the_method_need_not_know(wire: str, bytes_a_value: int) -> None:
    talk = Talk(["bank", "shop"], wire=wire)
    values = torch.randn(100, 64)
    received = talk.run(
        {
            "bank": lambda links: links["shop"].receive("representations").tensor,
            "shop": lambda links: links["bank"].send("representations", values),
        }
    )["bank"]
    scales = 100 * 4 if wire == "int8" else 0
    assert talk.ledger("bank").payload == 100 * 64 * bytes_a_value + scales
    assert received.dtype == torch.float32
    assert torch.allclose(received, values, atol=0.05)


def test_a_message_of_another_kind_is_refused_with_both_kinds_named() -> None:
    talk = Talk(["bank", "shop"])
    with pytest.raises(ProtocolError, match=r"bank: message 1 from 'shop' is 'gradients', expected 'representations'"):
        talk.run(
            {
                "bank": lambda links: links["shop"].receive("representations"),
                "shop": lambda links: links["bank"].send("gradients", torch.zeros(1)),
            }
        )


def test_a_tensor_of_another_shape_is_refused() -> None:
    talk = Talk(["bank", "shop"])
    with pytest.raises(
        ProtocolError, match=r"'representations' from 'shop' is \(2, 3\) of float32, expected \(2, 4\) of float32"
    ):
        talk.run(
            {
                "bank": lambda links: links["shop"].receive("representations", shape=(2, 4)),
                "shop": lambda links: links["bank"].send("representations", torch.zeros(2, 3)),
            }
        )


def exchange(sent: torch.Tensor, shape: tuple[int | None, ...]) -> Message:
    talk = Talk(["bank", "shop"])
    return talk.run(
        {
            "bank": lambda links: links["shop"].receive("representations", shape=shape),
            "shop": lambda links: links["bank"].send("representations", sent),
        }
    )["bank"]


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_dimension_may_be_left_free(rows: int) -> None:
    assert exchange(torch.zeros(rows, 4), (None, 4)).tensor.shape == (rows, 4)


@pytest.mark.parametrize("shape", [(4,), (7, 3), (7, 4, 1), (0,)])
def test_a_free_dimension_does_not_free_the_others(shape: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError, match=re.escape(f"is {shape} of float32, expected (any, 4) of float32")):
        exchange(torch.zeros(shape), (None, 4))


def test_garbage_from_a_peer_is_a_protocol_error_that_names_it() -> None:
    talk = Talk(["bank", "shop"])

    def shop(links):
        talk.engine.deliver("shop", "bank", 1, memoryview(bytearray(b"not a frame at all")))

    with pytest.raises(ProtocolError, match="bank: message 1 from 'shop', expected 'representations'"):
        talk.run({"bank": lambda links: links["shop"].receive("representations"), "shop": shop})


def refuse_negative(message: Message) -> None:
    if (message.tensor < 0).any():
        raise ProtocolError("'representations' has negative values")


@pytest.mark.parametrize(
    "bad",
    [
        b"not a frame at all",
        encode(Message("gradients", {"values": torch.zeros(2)})),
        encode(Message("representations", {"values": torch.zeros(3)})),
        encode(Message("representations", {"values": torch.tensor([0.0, float("nan")])})),
        encode(Message("representations", {"values": torch.tensor([0.0, -1.0])})),
    ],
    ids=["garbage", "another kind", "another shape", "not finite", "what a check refuses"],
)
def test_a_message_that_is_refused_does_not_enter_the_journal(bad: bytes, tmp_path: Path) -> None:
    """The run is not spoiled: another frame under its number is taken, in this process and in a later one."""
    good = encode(Message("representations", {"values": torch.ones(2)}))
    for number, (frame, fault) in enumerate([(bad, ProtocolError), (good, None), (bad, None)]):
        engine = InProcess(["bank", "shop"])
        engine.deliver("shop", "bank", 1, memoryview(bytearray(frame)))
        journal = Journal(tmp_path, ["shop"])
        talk = Conversation("bank", engine, journal, Ledger("bank", host="bank"), Meter(Budget()))
        link = Link("shop", talk)
        with pytest.raises(fault) if fault else nullcontext():
            assert link.receive("representations", shape=(2,), check=refuse_negative).tensor.tolist() == [1, 1]
        assert link.received == journal.received_through("shop") == len(talk.ledger.entries) == min(number, 1)
        journal.close()


def test_values_that_are_not_finite_are_not_sent() -> None:
    talk = Talk(["bank", "shop"])
    with pytest.raises(InputError, match="shop: 'representations' for 'bank' has values that are not finite and was"):
        talk.run(
            {
                "bank": lambda links: links["shop"].receive("representations"),
                "shop": lambda links: links["bank"].send("representations", torch.tensor([float("inf")])),
            }
        )
    assert talk.engine.carried == 0


def ping_pong(rounds: int):
    def host(links):
        for _ in range(rounds):
            links["shop"].receive("representations")
            links["shop"].send("gradients", torch.zeros(10))

    def guest(links):
        for _ in range(rounds):
            links["bank"].send("representations", torch.zeros(10))
            links["bank"].receive("gradients")

    return {"bank": host, "shop": guest}


def test_a_budget_is_refused_before_anything_leaves_and_one_that_fits_is_not() -> None:
    free = Talk(["bank", "shop"])
    free.run(ping_pong(2))
    cost = free.ledger("bank").wire

    exact = Talk(["bank", "shop"], budget=Budget(rounds=4, bytes=cost))
    exact.run(ping_pong(2))
    assert exact.ledger("bank").wire == cost

    short = Talk(["bank", "shop"], budget=Budget(bytes=cost - 1))
    with pytest.raises(BudgetError, match="nothing was sent"):
        short.run(ping_pong(2))
    assert short.engine.carried == cost - free.ledger("bank").entries[-1].wire

    few = Talk(["bank", "shop"], budget=Budget(rounds=3))
    with pytest.raises(BudgetError, match="bank: sending 'gradients' to 'shop' would be round 4 and the budget is 3"):
        few.run(ping_pong(2))
    assert few.ledger("bank").rounds == 3


def test_a_tensor_of_another_type_is_refused() -> None:
    talk = Talk(["bank", "shop"])
    with pytest.raises(ProtocolError, match=r"is \(2,\) of int64, expected \(2,\) of float32"):
        talk.run(
            {
                "bank": lambda links: links["shop"].receive("representations", shape=(2,)),
                "shop": lambda links: links["bank"].send("representations", torch.zeros(2, dtype=torch.int64)),
            }
        )


def test_a_scalar_that_is_missing_or_of_another_type_is_refused() -> None:
    message = Message("verdict", {}, {"better": 1})
    with pytest.raises(ProtocolError, match="expected scalar 'better' as bool; got 1"):
        message.scalar("better", bool)
    with pytest.raises(ProtocolError, match="expected scalar 'stop' as bool; got None"):
        message.scalar("stop", bool)
    assert message.scalar("better", int) == 1


def test_a_wire_of_its_own_spares_values_from_rounding() -> None:
    talk = Talk(["bank", "shop"], wire="int8")
    codes = torch.arange(300.0).reshape(100, 3)
    received = talk.run(
        {
            "bank": lambda links: links["shop"].receive("columns").tensor,
            "shop": lambda links: links["bank"].send("columns", codes, wire="float32"),
        }
    )["bank"]
    assert torch.equal(received, codes)


def test_a_peer_that_was_late_is_not_received_from_again() -> None:
    """Its late message would be taken for the next one."""
    clock = HandClock()
    talk = Talk(["bank", "shop"], clock=clock)

    def host(links):
        with pytest.raises(LateError):
            links["shop"].receive("representations", within=5.0)
        with pytest.raises(ProtocolError, match="'shop' was late and is given up: 'more' cannot be received from it"):
            links["shop"].receive("more")
        links["shop"].send("goodbye")
        return links["shop"].received

    def guest(links):
        clock.work(6.0)
        links["bank"].send("representations", torch.zeros(2))
        links["bank"].receive("goodbye")

    assert talk.run({"bank": host, "shop": guest})["bank"] == 0
    assert [entry.kind for entry in talk.ledger("bank").entries] == ["goodbye"]
    assert [entry.kind for entry in talk.ledger("shop").entries] == ["representations", "goodbye"]
