"""A bad message of each kind is refused with one sentence that names its sender, and does not enter the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from conversations import Talk
from vesica.errors import ProtocolError
from vesica.methods.fedcvt import receive_part, receive_width
from vesica.methods.one_shot import receive_chances, receive_gradients
from vesica.metrics import Task
from vesica.nn.models import EncoderSpec, PooledModel
from vesica.protocol import Guest, Host, Link, Rows
from vesica.protocol import link as link_module
from vesica.protocol.agreement import Agreement, Terms
from vesica.protocol.averaging import GuestAveraging, HostAveraging, shapes_of
from vesica.protocol.end_to_end import EndToEnd
from vesica.protocol.journal import Journal
from vesica.protocol.party import Party
from vesica.protocol.pooling import gather_columns
from vesica.protocol.prediction import answer, predict
from vesica.schema import TableSchema

Program = Callable[[Any], object]
Talks = Callable[[Link], None]

ALL, VALIDATION = torch.arange(4), torch.tensor([3])
ROWS = Rows(ALL, ALL, ALL, ALL, VALIDATION)
TASK = Task("classification", "auc", ("no", "yes"))
SPEC = EncoderSpec.choose("linear", TableSchema(2), dim=4)
COLUMNS = EncoderSpec.choose("tabular", TableSchema(1, (3,)), dim=4)
WEIGHTS = {"top": torch.ones(2, 3)}
TRAINING = EndToEnd(epochs=1, patience=1, batch_size=3, learning_rate=0.1, weight_decay=0.0, augment="none")
TERMS = Terms("split-nn", {}, ("host", "guest"), "classification", "auc", "float32", "", "", "1")


def the_link(me: Party) -> Link:
    (link,) = me.links.values()
    return link


@dataclass(frozen=True)
class Case:
    """A receiver's program, what its peer does up to a bad message, and what the receiver has taken before it."""

    program: Program
    peer: Talks
    sentence: str
    before: int = 0


def says(kind: str, values: object = None, /, **scalars: Any) -> Talks:
    """Send as a hostile party would, which does not look at the values."""

    def talk(link: Link) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(link_module, "fault_of", lambda tensors: None)
            link.send(kind, values, scalars=scalars)

    return talk


def after(before: str, then: Talks) -> Talks:
    """Take a message first."""

    def talks(link: Link) -> None:
        link.receive(before)
        then(link)

    return talks


def both(*talks: Talks) -> Talks:
    def one_by_one(link: Link) -> None:
        for talk in talks:
            talk(link)

    return one_by_one


def follow(me: Guest) -> None:
    TRAINING.follow(me, step="training")


def follow_up_to_some_bytes(me: Guest) -> None:
    me.conversation.stop_at_bytes = 10**6
    follow(me)


def average_as_host(me: Host) -> None:
    HostAveraging(me, WEIGHTS).average()


def average_as_guest(me: Guest) -> None:
    GuestAveraging(me, WEIGHTS).average()


def propose(me: Party) -> object:
    return Agreement(TERMS, "run", TASK, ALL, VALIDATION).propose(me.links)


def accept(me: Party) -> object:
    return Agreement.accept(TERMS, the_link(me), rows=4, dim=4)


def predict_from_columns(me: Host) -> None:
    me.head = PooledModel({"guest": COLUMNS}, 2)
    predict(me, ALL)


ONE_BATCH = after("representations", says("gradients", torch.zeros(3, 4)))
GROUP = after("shapes", says("group", shared=True))
OTHER = {"top": torch.ones(3, 3)}

FROM_A_HOST = {
    "agreement": Case(accept, says("agreement", torch.zeros(2), terms="{}"), "the host's agreement cannot be read"),
    "gradients, what follows": Case(
        follow_up_to_some_bytes,
        after("representations", says("gradients", torch.zeros(3, 4), then="sleep")),
        "message 'gradients': expected 'then' as one of",
    ),
    "verdict": Case(
        follow,
        both(ONE_BATCH, after("representations", says("verdict", better=1, stop=True))),
        "message 'verdict': expected scalar 'better' as bool; got 1",
        before=1,
    ),
    "verdict without a word": Case(
        follow,
        both(ONE_BATCH, after("representations", says("verdict", better=True))),
        "message 'verdict': expected scalar 'stop' as bool; got None",
        before=1,
    ),
    "request": Case(
        lambda me: answer(me, ALL),
        says("request", kind="representations", wanted=1),
        "message 'request': expected scalar 'wanted' as bool; got 1",
    ),
    "request of no kind": Case(
        lambda me: answer(me, ALL),
        says("request", kind=7, wanted=True),
        "message 'request': expected scalar 'kind' as str; got 7",
    ),
    "group": Case(
        average_as_guest,
        after("shapes", says("group", shared="yes")),
        "message 'group': expected scalar 'shared' as bool; got 'yes'",
    ),
    "weights": Case(
        average_as_guest,
        both(GROUP, after("weights", says("weights", OTHER))),
        "'weights' from 'host' have other shapes than those here",
        before=1,
    ),
    "gradients of other classes": Case(
        lambda me: receive_gradients(me, shape=(4, 4)),
        says("gradients", torch.zeros(4, 4), classes=9),
        "'gradients' from 'host' are of 9 classes, expected the 2 agreed on",
    ),
    "probabilities": Case(
        receive_chances,
        says("probabilities", torch.full((4,), 1.5)),
        "'probabilities' from 'host' go from 1.5 to 1.5, expected 0 to 1",
    ),
    "width": Case(receive_width, says("width", width=6), "'width' from 'host' is 6, expected an even"),
}

FROM_A_GUEST = {
    "agreement": Case(propose, after("agreement", says("agreement", digest="0", dim=4)), "'guest' agreed to something"),
    "representations far below zero": Case(
        lambda me: me.gather_representations(ALL),
        says("representations", torch.full((4, 4), -1.1e15)),
        r"'representations' from 'guest' has values that are beyond 1e\+15",
    ),
    "representations of too few rows": Case(
        lambda me: receive_part(the_link(me), 4, dim=4),
        says("representations", torch.zeros(3, 4)),
        "'representations' from 'guest' has 3 rows, expected 4 or more",
    ),
    "shapes": Case(
        average_as_host, says("shapes", digest=3), "message 'shapes': expected scalar 'digest' as str; got 3"
    ),
    "weights": Case(
        average_as_host,
        both(says("shapes", digest=shapes_of(WEIGHTS)), after("group", says("weights", OTHER))),
        "'weights' from 'guest' have other shapes than it said",
        before=1,
    ),
    "columns": Case(
        gather_columns,
        says("columns", torch.full((4, 2), 7.0), encoder=json.dumps(COLUMNS.to_json())),
        "'columns' from 'guest' has category codes",
    ),
    "columns to predict from": Case(
        predict_from_columns,
        after("request", says("columns", torch.full((4, 2), 7.0))),
        "'columns' from 'guest' has category codes",
    ),
}

CASES = [
    *(pytest.param("host", case, id=f"from a host: {name}") for name, case in FROM_A_HOST.items()),
    *(pytest.param("guest", case, id=f"from a guest: {name}") for name, case in FROM_A_GUEST.items()),
]


@pytest.mark.parametrize(("sender", "case"), CASES)
def test_a_bad_message_is_refused_and_does_not_enter_the_journal(sender: str, case: Case, tmp_path: Path) -> None:
    talk = Talk(["host", "guest"])
    (receiver,) = {"host", "guest"} - {sender}
    talk.talks[receiver].journal = journal = Journal(tmp_path, [sender])

    def run(links: Mapping[str, Link]) -> None:
        case.program(party(receiver, talk, links))

    def send(links: Mapping[str, Link]) -> None:
        case.peer(links[receiver])

    with pytest.raises(ProtocolError, match=case.sentence) as refusal:
        talk.run({receiver: run, sender: send})
    assert refusal.value.party == receiver
    assert "\n" not in str(refusal.value)
    assert journal.received_through(sender) == case.before
    assert sum(entry.sender == sender for entry in talk.ledger(receiver).entries) == case.before
    journal.close()


def party(name: str, talk: Talk, links: Mapping[str, Link]) -> Party:
    inputs = torch.zeros(4, 2)
    if name == "guest":
        return Guest(name, TASK, ROWS, inputs, SPEC, talk.talks[name], links)
    return Host(name, TASK, ROWS, inputs, None, talk.talks[name], links, labels=ALL % 2, dims={"guest": 4})
