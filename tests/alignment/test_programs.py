"""Private set intersection over links: what comes out, what crosses, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import Talk
from vesica.alignment import points as points_module
from vesica.alignment.curve import PRIME, SIZE, hash_to_curve
from vesica.alignment.member import Member
from vesica.alignment.normalisation import prepare
from vesica.alignment.programs import Aligned, Alignment, legs
from vesica.alignment.terms import Terms
from vesica.data.ids import Rules
from vesica.errors import AgreementError, InputError, ProtocolError
from vesica.protocol import Link, Message
from vesica.protocol.message import decode

Tables = Mapping[str, Sequence[Any]]  # a party's ids
TABLES: Tables = {"bank": ["a", "b", "c", "d"], "shop": ["d", "x", "b"], "clinic": ["b", "y", "d", "c"]}


class Recorded(Talk):
    """A talk whose frames are kept."""

    def __init__(self, parties: Sequence[str]) -> None:
        super().__init__(parties)
        self.frames: list[tuple[str, str, bytes]] = []
        deliver = self.engine.deliver

        def keep(sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
            self.frames.append((sender, receiver, bytes(frame)))
            deliver(sender, receiver, sequence, frame)

        self.engine.deliver = keep  # type: ignore[method-assign]

    def messages(self, kind: str) -> list[Message]:
        decoded = [decode(frame) for _, _, frame in self.frames]
        return [message for message in decoded if message.kind == kind]


def member(name: str, tables: Tables, links: Mapping[str, Link], rules: Rules, **more: Any) -> Member:
    columns = [tables[name]]
    ids = prepare(columns, rules, duplicates="first")
    return Member(name, tuple(tables), links, ids, columns, **more)


def run(tables: Tables, alignment: Alignment, talk: Talk | None = None, **more: Any) -> dict[str, Aligned]:
    host = next(iter(tables))

    def program(name: str, links: Mapping[str, Link]) -> Aligned:
        me = member(name, tables, links, alignment.rules, **more)
        return (alignment.host if name == host else alignment.guest)(me)

    return (talk or Talk(list(tables))).run({name: partial(program, name) for name in tables})


def aligned_ids(tables: Tables, results: Mapping[str, Aligned]) -> dict[str, list[Any]]:
    return {name: [tables[name][row] for row in results[name].rows] for name in tables}


def plain_join(tables: Tables, rules: Rules) -> dict[str, dict[str, int]]:
    """By party: the first row of every common id."""

    def text(value: str) -> str:
        value = value.strip() if rules.trim else value
        value = {"keep": value, "lower": value.lower(), "upper": value.upper()}[rules.case]
        return "0" * (rules.pad - len(value)) + value if value else ""

    firsts: dict[str, dict[str, int]] = {}
    for name, values in tables.items():
        firsts[name] = {}
        for row, value in enumerate(values):
            if value and text(value):
                firsts[name].setdefault(text(value), row)
    shared = set.intersection(*(set(first) for first in firsts.values()))
    return {name: {key: first[key] for key in shared} for name, first in firsts.items()}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_every_party_gets_the_common_ids_in_one_order(count: int) -> None:
    tables = {f"party-{number}": [f"id {row}" for row in range(3 * number, 40)] for number in range(count)}
    results = run(tables, Alignment())
    found = list(aligned_ids(tables, results).values())
    assert sorted(found[0]) == sorted(tables[f"party-{count - 1}"])
    assert all(ids == found[0] for ids in found)
    assert all(result.size == len(found[0]) for result in results.values())
    assert results["party-1"].sizes == {name: len(ids) for name, ids in tables.items()}


Value = st.text("0aA \x00ßéé\ud800", max_size=3) | st.text(max_size=4) | st.none()
Someones = st.lists(Value, max_size=12)
SomeRules = st.builds(
    Rules, trim=st.booleans(), case=st.sampled_from(["keep", "lower", "upper"]), pad=st.integers(0, 4)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(Someones, min_size=2, max_size=4), SomeRules)
def test_the_result_is_that_of_a_plain_join(columns: list[list[str | None]], rules: Rules) -> None:
    tables = {f"party-{number}": column for number, column in enumerate(columns)}
    expected = plain_join(tables, rules)
    results = run(tables, Alignment(rules))
    orders = []
    for name, result in results.items():
        key_of = {row: key for key, row in expected[name].items()}
        assert sorted(result.rows) == sorted(key_of)
        orders.append([key_of[row] for row in result.rows.tolist()])
    assert all(order == orders[0] for order in orders)


@pytest.mark.parametrize(
    ("ours", "theirs", "size"), [([], [], 0), (["a"], [], 0), ([], ["a"], 0), (["a"], ["b"], 0), (["a"], ["a"], 1)]
)
def test_empty_disjoint_and_equal_sets(ours: list[str], theirs: list[str], size: int) -> None:
    results = run({"bank": ours, "shop": theirs}, Alignment())
    assert [len(result.rows) for result in results.values()] == [size, size]


def test_many_messages_and_many_pieces_make_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points_module, "A_MESSAGE", 3)
    monkeypatch.setattr(points_module, "AT_ONCE", 2)
    tables = {"bank": list(range(10)), "shop": list(range(17, 3, -1))}
    talk, seen = Recorded(list(tables)), []
    results = run(tables, Alignment(), talk, progress=lambda *step: seen.append(step))
    assert sorted(aligned_ids(tables, results)["shop"]) == list(range(4, 10))
    assert [len(message.tensor) for message in talk.messages("points")][:4] == [3, 3, 3, 1]
    assert ("bank", "hash", 10, 10) in seen


# What crosses.


def test_a_frame_holds_no_id_no_hash_of_one_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {name: [f"planted-{name}-{row}" for row in range(20)] + ["shared"] for name in TABLES}
    talk, secrets = Recorded(list(planted)), []

    def draw(size: int) -> bytes:
        drawn = np.random.default_rng(len(secrets)).bytes(size)
        if size == SIZE:  # the run's name, which is no secret, is shorter
            secrets.append(drawn)
        return drawn

    monkeypatch.setattr("vesica.alignment.member.secrets.token_bytes", draw)
    results = run(planted, Alignment(doctor=True), talk)
    everything = b"".join(frame for _, _, frame in talk.frames)
    run_name = bytes.fromhex(talk.messages("agreement")[0].scalar("run", str))
    digests = b"".join(prepare([ids], Rules()).digests.tobytes() for ids in planted.values())
    unblinded = hash_to_curve(digests, run=run_name)
    assert results["shop"].size == 1
    assert len(secrets) == 3
    assert b"points" in everything
    for word in (b"planted", b"shared", *secrets, *pieces(digests), *pieces(unblinded)):
        assert word not in everything


def test_what_crosses_does_not_depend_on_the_order_of_anyones_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.alignment.terms.secrets.token_hex", lambda size: "0" * 2 * size)
    crossed = []
    for step in (1, -1):
        tables = {name: ids[::step] for name, ids in TABLES.items()}
        talk = Recorded(list(tables))

        def program(name: str, links: Mapping[str, Link], tables: Tables = tables) -> Aligned:
            me = member(name, tables, links, Rules(), secret=name.encode().ljust(SIZE, b"."))
            return (Alignment().host if name == "bank" else Alignment().guest)(me)

        results = talk.run({name: partial(program, name) for name in tables})
        assert sorted(aligned_ids(tables, results)["clinic"]) == ["b", "d"]
        crossed.append(talk.frames)
    assert crossed[0] == crossed[1]


def test_points_of_another_run_are_others_even_with_the_same_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed = []
    for name in ("0" * 32, "1" * 32):
        monkeypatch.setattr("vesica.alignment.terms.secrets.token_hex", lambda size, name=name: name)
        talk = Recorded(list(TABLES))
        assert run(TABLES, Alignment(), talk, secret=b"s" * SIZE)["shop"].size == 2
        crossed.append(
            {piece for message in talk.messages("points") for piece in pieces(bytes(message.tensor.numpy()))}
        )
    assert crossed[0].isdisjoint(crossed[1])


def test_every_set_that_crosses_is_sorted_by_its_blinded_points() -> None:
    talk = Recorded(list(TABLES))
    run(TABLES, Alignment(), talk)
    sent = [message.tensor.numpy() for message in talk.messages("points")]
    assert len(sent) == 10  # three sets up at two stops each, and down to them, where they are not at home
    for points in sent:
        values = [int.from_bytes(point.tobytes(), "little") for point in points]
        assert values == sorted(values)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_no_guest_sees_two_sets_blinded_by_the_same_parties(count: int) -> None:
    parties = tuple(f"party-{number}" for number in range(count))
    blinded = {owner: {owner} if owner == parties[0] else set() for owner in parties}
    seen: dict[str, list[frozenset[str]]] = {guest: [] for guest in parties[1:]}
    for leg in legs(parties):
        for owner, guest in leg:
            seen[guest].append(frozenset(blinded[owner]))
            blinded[owner] |= {guest}
    assert all(len(set(sets)) == count for sets in seen.values())
    assert all(blinded[owner] | {parties[0]} == set(parties) for owner in parties)


def test_two_parties_need_four_rounds() -> None:
    tables = {"bank": ["a", "b"], "shop": ["b"]}
    talk = Talk(list(tables))
    run(tables, Alignment(), talk)
    kinds = [(entry.round, entry.sender, entry.kind) for entry in talk.ledger("bank").entries]
    assert kinds == [
        (0, "bank", "agreement"),
        (0, "shop", "agreement"),
        (1, "bank", "sizes"),
        (1, "bank", "points"),
        (2, "shop", "points"),
        (2, "shop", "points"),
        (3, "bank", "positions"),
        (3, "bank", "positions"),
        (4, "shop", "positions"),
    ]


def test_the_size_alone_comes_without_any_way_back() -> None:
    talk = Recorded(list(TABLES))
    results = run(TABLES, Alignment(reveal="size"), talk)
    assert [result.size for result in results.values()] == [2, 2, 2]
    assert all(result.rows is None for result in results.values())
    assert talk.messages("positions") == []


def test_the_doctor_speaks_only_when_all_asked_and_little_is_common() -> None:
    tables = {"bank": ["001", "002", "003"], "shop": ["1", "2", "33"], "clinic": ["001", "002", "004"]}
    talk = Recorded(list(tables))
    results = run(tables, Alignment(doctor=True), talk)
    assert results["bank"].hints[0].startswith("'shop': yours have 3 digits with leading zeros, theirs have 1 to 2")
    assert results["clinic"].hints[0].startswith("'bank': the ids look alike")
    assert len(talk.messages("summary")) == 2 + 2 * 2
    for rules, doctor in ((Rules(), False), (Rules(pad=3), True)):
        talk = Recorded(list(tables))
        assert all(not result.hints for result in run(tables, Alignment(rules, doctor=doctor), talk).values())
        assert talk.messages("summary") == []


# What is refused.


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (Alignment(Rules(pad=8)), "its pad is 8, here it is 0"),
        (Alignment(Rules(trim=True)), "its trim is True, here it is False"),
        (Alignment(Rules(case="lower")), "its case is 'lower', here it is 'keep'"),
        (Alignment(reveal="size"), "its reveal is 'size', here it is 'ids'"),
        (Alignment(doctor=True), "its doctor is True, here it is False"),
    ],
)
def test_other_rules_are_refused_before_anything_is_sent(theirs: Alignment, words: str) -> None:
    talk = Recorded(["bank", "shop"])
    with pytest.raises(AgreementError, match=f"shop: 'bank' aligns otherwise: {words}; give all parties the same"):
        talk.run(
            {
                "bank": lambda links: theirs.host(member("bank", PAIR, links, theirs.rules)),
                "shop": lambda links: Alignment().guest(member("shop", PAIR, links, Rules())),
            }
        )
    assert [sender for sender, _, _ in talk.frames] == ["bank"]


def test_a_long_rule_of_a_host_is_shortened_in_the_refusal() -> None:
    def host(links: Mapping[str, Link]) -> None:
        links["shop"].send("agreement", scalars={"terms": json.dumps({"parties": "x" * 200_000}), "run": "0" * 32})

    with pytest.raises(AgreementError, match="'bank' aligns otherwise: its parties is 'xxx") as refusal:
        Talk(["bank", "shop"]).run(
            {"bank": host, "shop": lambda links: Alignment().guest(member("shop", PAIR, links, Rules()))}
        )
    assert len(str(refusal.value)) < 400


def test_another_number_of_keys_is_refused() -> None:
    def guest(links: Mapping[str, Link]) -> Aligned:
        columns = [["a"], ["b"]]
        return Alignment().guest(Member("shop", ("bank", "shop"), links, prepare(columns, Rules()), columns))

    with pytest.raises(AgreementError, match="its keys is 1, here it is 2"):
        Talk(["bank", "shop"]).run(
            {"bank": lambda links: Alignment().host(member("bank", PAIR, links, Rules())), "shop": guest}
        )


def test_an_unknown_thing_to_reveal_is_refused() -> None:
    with pytest.raises(InputError, match="'sizes' cannot be revealed; did you mean 'size'"):
        Alignment(reveal="sizes")  # type: ignore[arg-type]


PAIR: Tables = {"bank": ["a", "b"], "shop": ["b", "c"]}
TERMS = Terms(("bank", "shop"), 1, False, "keep", 0, "ids", False)
GOOD = torch.arange(2 * SIZE, dtype=torch.uint8).reshape(2, SIZE) % 100 + 1
Change = Callable[[torch.Tensor], torch.Tensor]


def points_of(*values: int) -> torch.Tensor:
    written = b"".join(value.to_bytes(SIZE, "little") for value in values)
    return torch.frombuffer(bytearray(written), dtype=torch.uint8).reshape(-1, SIZE)


def with_value(row: int, column: int, value: int) -> Change:
    def change(points: torch.Tensor) -> torch.Tensor:
        changed = points.clone()
        changed[row, column] = value
        return changed

    return change


BAD_POINTS = [
    (lambda points: points[:, :31], r"\(2, 31\) of uint8, expected \(2, 32\) of uint8"),
    (lambda points: points[:1], r"\(1, 32\) of uint8, expected \(2, 32\) of uint8"),
    (lambda points: torch.cat([points, points]), r"\(4, 32\) of uint8, expected \(2, 32\) of uint8"),
    (lambda points: points.int(), r"\(2, 32\) of int32, expected \(2, 32\) of uint8"),
    (lambda points: points[:1].repeat(2, 1), "sent a point twice"),
    (lambda points: torch.cat([points[:1], 0 * points[:1]]), "sent a point of zeros"),
    (with_value(1, 31, 200), "sent a point beyond the field"),
    (lambda points: points_of(9, 1), "sent a point of small order"),
    (lambda points: points_of(9, PRIME - 1), "sent a point of small order"),
    (lambda points: points_of(9, pow(9, -1, PRIME)), "sent two points that are one when blinded"),
    (lambda points: points_of(9, 9 + PRIME), "sent a point beyond the field"),
    (lambda points: points_of(9, PRIME), "sent a point beyond the field"),
    (lambda points: points_of(9, 2**255 - 1), "sent a point beyond the field"),
]


@pytest.mark.parametrize(("change", "words"), BAD_POINTS)
def test_bad_points_of_a_guest_are_refused(change: Change, words: str) -> None:
    def guest(links: Mapping[str, Link]) -> None:
        TERMS.accept(links["bank"], me="shop", ids=2)
        links["bank"].send("points", GOOD)
        links["bank"].send("points", change(GOOD))

    with pytest.raises(ProtocolError, match=f"^bank: .*{words}"):
        Talk(["bank", "shop"]).run(
            {"bank": lambda links: Alignment().host(member("bank", PAIR, links, Rules())), "shop": guest}
        )


@pytest.mark.parametrize(("change", "words"), BAD_POINTS)
def test_bad_points_of_the_host_are_refused(change: Change, words: str) -> None:
    def host(links: Mapping[str, Link]) -> None:
        TERMS.propose(links, ids=2)
        links["shop"].send("points", change(GOOD))

    with pytest.raises(ProtocolError, match=f"^shop: .*{words}"):
        Talk(["bank", "shop"]).run(
            {"bank": host, "shop": lambda links: Alignment().guest(member("shop", PAIR, links, Rules()))}
        )


@pytest.mark.parametrize("points", [points_of(9, pow(9, -1, PRIME)), points_of(9, 9 + PRIME), points_of(9, 1)])
def test_of_three_parties_the_one_that_sent_bad_points_is_blamed(points: torch.Tensor) -> None:
    tables = {"bank": ["a", "b"], "shop": ["b", "c"], "clinic": ["b", "c"]}
    terms = Terms(tuple(tables), 1, False, "keep", 0, "ids", False)

    def shop(links: Mapping[str, Link]) -> None:
        terms.accept(links["bank"], me="shop", ids=2)
        for good in (GOOD, points):  # the bank's set, blinded, and its own, which the clinic blinds next
            links["bank"].send("points", good)

    honest = {
        "bank": lambda links: Alignment().host(member("bank", tables, links, Rules())),
        "clinic": lambda links: Alignment().guest(member("clinic", tables, links, Rules())),
    }
    with pytest.raises(ProtocolError, match=r"^bank: 'shop' sent "):
        Talk(list(tables)).run({**honest, "shop": shop})


def test_the_largest_number_of_the_field_is_none_beyond_it() -> None:
    values = [0, PRIME - 1, PRIME, PRIME + 18, 2**255, 2**256 - 1, PRIME - 2**64, PRIME - 2**192]
    assert points_module.beyond_the_field(points_of(*values).numpy()).tolist() == [value >= PRIME for value in values]


@pytest.mark.parametrize("positions", [[0, 0], [2], [-1]])
def test_positions_that_cannot_be_are_refused(positions: list[int]) -> None:
    def host(links: Mapping[str, Link]) -> None:
        TERMS.propose(links, ids=2)
        links["shop"].send("points", GOOD)
        for _ in range(2):
            links["shop"].receive("points")
        links["shop"].send("positions", torch.tensor(positions))

    with pytest.raises(ProtocolError, match="shop: 'bank' sent positions that are not distinct ones of 2"):
        Talk(["bank", "shop"]).run(
            {"bank": host, "shop": lambda links: Alignment().guest(member("shop", PAIR, links, Rules()))}
        )


@pytest.mark.parametrize("size", [-1, 3])
def test_a_number_of_common_ids_that_cannot_be_is_refused(size: int) -> None:
    def host(links: Mapping[str, Link]) -> None:
        Terms(("bank", "shop"), 1, False, "keep", 0, "size", False).propose(links, ids=2)
        links["shop"].send("points", GOOD)
        for _ in range(2):
            links["shop"].receive("points")
        links["shop"].send("size", scalars={"common": size})

    with pytest.raises(ProtocolError, match=f"shop: 'bank' says that {size} ids are common"):
        Talk(["bank", "shop"]).run(
            {"bank": host, "shop": lambda links: Alignment(reveal="size").guest(member("shop", PAIR, links, Rules()))}
        )


def test_more_positions_than_a_party_has_ids_are_refused_before_they_are_answered() -> None:
    tables = {"bank": ["a", "b", "c"], "shop": ["b"]}
    terms = Terms(tuple(tables), 1, False, "keep", 0, "ids", False)

    def host(links: Mapping[str, Link]) -> None:
        terms.propose(links, ids=3)
        links["shop"].send("points", points_of(9, 10, 11))
        for _ in range(2):
            links["shop"].receive("points")
        links["shop"].send("positions", torch.tensor([0, 1]))  # of the bank's set

    talk = Recorded(list(tables))
    with pytest.raises(ProtocolError, match=r"^shop: 'bank' says that 2 ids are common, more than a party has"):
        talk.run({"bank": host, "shop": lambda links: Alignment().guest(member("shop", tables, links, Rules()))})
    assert [sender for sender, _, frame in talk.frames if decode(frame).kind == "positions"] == ["bank"]


@pytest.mark.parametrize("ids", [-1, 2**27])
def test_a_number_of_ids_that_cannot_be_is_refused(ids: int) -> None:
    def guest(links: Mapping[str, Link]) -> None:
        TERMS.accept(links["bank"], me="shop", ids=ids)

    with pytest.raises(AgreementError, match=f"bank: 'shop' says that it has {ids} ids, expected 0 to 67,108,864"):
        Talk(["bank", "shop"]).run(
            {"bank": lambda links: Alignment().host(member("bank", PAIR, links, Rules())), "shop": guest}
        )


@pytest.mark.parametrize(
    ("scalars", "words"),
    [
        ({"terms": "[1]", "run": "0" * 32}, "cannot be read"),
        ({"terms": TERMS._text(), "run": "../.."}, "no proper name"),
        ({"terms": TERMS._text()}, "expected scalar 'run' as str"),
    ],
)
def test_a_proposal_that_is_none_is_refused(scalars: dict[str, str], words: str) -> None:
    with pytest.raises(ProtocolError, match=f"shop: .*{words}"):
        Talk(["bank", "shop"]).run(
            {
                "bank": lambda links: links["shop"].send("agreement", scalars=scalars),
                "shop": lambda links: Alignment().guest(member("shop", PAIR, links, Rules())),
            }
        )


def pieces(data: bytes) -> list[bytes]:
    return [data[start : start + SIZE] for start in range(0, len(data), SIZE)]
