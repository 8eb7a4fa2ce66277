"""Averaging weights by way of the host: the mean by hand, shapes that differ, noise, and what is refused."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from conversations import Talk
from vesica.errors import ProtocolError
from vesica.metrics import Task
from vesica.protocol import Guest, Host, Link, Rows
from vesica.protocol.averaging import GuestAveraging, HostAveraging, shapes_of

NONE = torch.zeros(0, dtype=torch.long)
ROWS = Rows(NONE, NONE, NONE, NONE, NONE)
TASK = Task("regression", "rmse")
Weights = dict[str, Tensor]


def weights(value: float, *, width: int = 3) -> Weights:
    return {"top.weight": torch.full((2, width), value), "bias": torch.full((width,), 10 * value)}


def take_part(
    host: Weights | None, guests: Mapping[str, Weights], *, noise: float = 0.0, wire: str = "float32"
) -> tuple[HostAveraging, Talk]:
    talk = Talk(["host", *guests], wire=wire)

    def lead(links: Mapping[str, Link]) -> HostAveraging:
        me = Host("host", TASK, ROWS, torch.empty(0), None, talk.talks["host"], links)
        averaging = HostAveraging(me, host, noise=noise)
        averaging.average()
        return averaging

    def follow(name: str) -> Callable[[Mapping[str, Link]], Any]:
        def run(links: Mapping[str, Link]) -> None:
            me = Guest(name, TASK, ROWS, torch.empty(0), None, talk.talks[name], links)
            GuestAveraging(me, guests[name]).average()

        return run

    found = talk.run({"host": lead, **{name: follow(name) for name in guests}})
    return found["host"], talk


def test_host_and_guests_hold_the_plain_mean_afterwards() -> None:
    host, guests = weights(1.0), {"a": weights(2.0), "b": weights(6.0)}
    averaging, talk = take_part(host, guests)
    for held in (host, *guests.values()):
        assert torch.equal(held["top.weight"], torch.full((2, 3), 3.0))
        assert torch.equal(held["bias"], torch.full((3,), 30.0))
    assert (averaging.groups, averaging.alone) == ([["host", "a", "b"]], [])
    script = [(entry.round, entry.sender, entry.kind) for entry in talk.ledger("host").messages]
    assert script == [
        *((1, guest, "shapes") for guest in "ab"),
        *((2, "host", "group") for _ in "ab"),
        *((3, guest, "weights") for guest in "ab"),
        *((4, "host", "weights") for _ in "ab"),
    ]


def test_only_equal_shapes_are_averaged_and_who_is_alone_sends_nothing() -> None:
    host, guests = weights(1.0), {"a": weights(2.0, width=5), "b": weights(4.0, width=5), "c": weights(7.0, width=4)}
    averaging, talk = take_part(host, guests)
    assert averaging.groups == [["a", "b"]]
    assert averaging.alone == ["host", "c"]
    assert host["bias"][0] == 10.0
    assert guests["a"]["bias"][0] == guests["b"]["bias"][0] == 30.0
    assert guests["c"]["bias"][0] == 70.0
    assert {entry.sender for entry in talk.ledger("host").messages if entry.kind == "weights"} == {"host", "a", "b"}


def test_a_host_without_weights_averages_those_of_its_guests() -> None:
    guests = {"a": weights(2.0), "b": weights(4.0)}
    averaging, _ = take_part(None, guests)
    assert averaging.groups == [["a", "b"]]
    assert all(held["bias"][0] == 30.0 for held in guests.values())


def test_the_hosts_weights_are_noised_and_nobody_elses() -> None:
    torch.manual_seed(0)
    host, guest = {"w": torch.ones(200, 100)}, {"w": torch.zeros(200, 100)}
    take_part(host, {"a": guest}, noise=0.5)
    assert torch.equal(host["w"], guest["w"])
    assert guest["w"].mean().item() == pytest.approx(0.5, abs=0.01)
    assert guest["w"].std().item() == pytest.approx(0.25, rel=0.05)  # half of one times the row norm 10 / sqrt(100)


def test_a_narrow_wire_rounds_what_travels() -> None:
    host, guest = {"w": torch.full((1, 4), 1.0001)}, {"w": torch.full((1, 4), 1.0)}
    _, talk = take_part(host, {"a": guest}, wire="float16")
    assert talk.ledger("host").payload == 2 * 4 * 2
    assert guest["w"][0, 0] == torch.tensor(1.00005).half()


def test_names_shapes_and_types_tell_weights_apart_and_values_do_not() -> None:
    assert shapes_of(weights(1.0)) == shapes_of(weights(2.0))
    assert shapes_of(weights(1.0)) == shapes_of(dict(reversed(weights(1.0).items())))
    others = [weights(1.0, width=4), {"bias": torch.ones(3)}, {n: w.double() for n, w in weights(1.0).items()}]
    assert shapes_of(weights(1.0)) not in map(shapes_of, others)


def test_weights_of_other_shapes_than_were_said_are_refused() -> None:
    talk = Talk(["host", "a"])

    def lead(links: Mapping[str, Link]) -> None:
        me = Host("host", TASK, ROWS, torch.empty(0), None, talk.talks["host"], links)
        HostAveraging(me, weights(1.0)).average()

    def cheat(links: Mapping[str, Link]) -> None:
        links["host"].send("shapes", scalars={"digest": shapes_of(weights(1.0))})
        links["host"].receive("group")
        links["host"].send("weights", weights(1.0, width=9))

    with pytest.raises(ProtocolError, match="'weights' from 'a' have other shapes than it said"):
        talk.run({"host": lead, "a": cheat})


@pytest.mark.parametrize("value", [9e14, -9e14, 1.1e5])
def test_weights_that_would_overflow_in_training_are_refused_and_their_sender_is_named(value: float) -> None:
    """Their mean is finite; the next step from it is not, and its own learning rate would get the blame."""
    with pytest.raises(
        ProtocolError, match=r"host: 'weights' from 'a' go up to .*, expected at most 1e[+]05: lower its"
    ):
        take_part(weights(1.0), {"a": {**weights(2.0), "bias": torch.full((3,), value)}, "b": weights(3.0)})


def test_a_guest_refuses_weights_that_would_overflow_in_training() -> None:
    def lead(links: Mapping[str, Link]) -> None:
        links["a"].receive("shapes")
        links["a"].send("group", scalars={"shared": True})
        links["a"].receive("weights")
        links["a"].send("weights", weights(9e13))

    talk = Talk(["host", "a"])

    def follow(links: Mapping[str, Link]) -> None:
        me = Guest("a", TASK, ROWS, torch.empty(0), None, talk.talks["a"], links)
        GuestAveraging(me, weights(1.0)).average()

    with pytest.raises(ProtocolError, match=r"a: 'weights' from 'host' go up to 9e[+]14, expected at most 1e[+]05"):
        talk.run({"host": lead, "a": follow})
