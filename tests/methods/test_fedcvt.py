"""FedCVT: its message script, what its pseudo-labels are worth, its learning, its refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from federations import ids, small_federation
from vesica.data import Federation, Overlap, PartyData, Table, TestRows
from vesica.errors import InputError, ProtocolError
from vesica.experiment import Result, fit
from vesica.methods import FedCVT, fedcvt
from vesica.methods.fedcvt import BesideUnaligned
from vesica.nn.models import EncoderSpec
from vesica.protocol import Host, Link
from vesica.protocol.party import Party
from vesica.schema import ImageSchema
from vesica.training.cross_view import CrossView

DIM, LABELLED, TRAINED = 32, 40, 36


@pytest.mark.parametrize(("guests", "host_features"), [(1, True), (2, False), (3, True)])
def test_every_byte_of_its_script_is_in_the_ledger(guests: int, host_features: bool) -> None:
    method = FedCVT(epochs=2, batch_size=16, unaligned_batch_size=5)
    result = fit(method, small_federation(guests=guests, host_features=host_features))
    shops = [f"shop{i}" for i in range(1, guests + 1)]
    expected: list[tuple[Any, ...]] = []

    def up(rows: int) -> list[tuple[Any, ...]]:
        return [(shop, "bank", "representations", rows * DIM * 4) for shop in shops]

    def down(kind: str, rows: int) -> list[tuple[Any, ...]]:
        return [("bank", shop, kind, rows * DIM * 4) for shop in shops]

    expected = [*down("width", 0), *up(LABELLED)]
    for _ in range(2):
        for batch in (16, 16, 4):
            expected += [*up(batch + 5), *down("gradients", batch + 5)]
        expected += [*up(LABELLED), *down("verdict", 0)]
    sent = [(entry.sender, entry.receiver, entry.kind, entry.payload) for entry in result.ledger.messages]
    assert sent == expected
    assert result.ledger.rounds == 2 + 2 * 2 * 4 - 1  # the first batch follows the reference rows, both up


def test_missing_parts_are_estimated_from_training_rows_and_no_row_from_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    loss = CrossView.loss

    def spy(self: CrossView, batch: Any, counts: Any) -> Any:
        seen.append(batch)
        return loss(self, batch, counts)

    monkeypatch.setattr(CrossView, "loss", spy)
    fit(FedCVT(epochs=1, batch_size=16), with_encoder(small_federation(guests=2), "linear"))  # which has no dropout
    first = seen[0]
    assert first.reference.shape == (len(first.aligned), TRAINED, DIM)
    for part, reference in zip(first.aligned, first.reference, strict=True):
        assert torch.allclose(part.detach(), reference[first.positions], atol=1e-6)


def test_its_loss_has_the_methods_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    loss = CrossView.loss
    monkeypatch.setattr(CrossView, "loss", lambda self, *given: made.append(self) or loss(self, *given))
    names = ("joint_threshold", "local_threshold", "temperature", "lambda_sim", "lambda_diff", "lambda_est")
    settings = dict(zip(names, (0.61, 0.62, 0.63, 0.64, 0.65, 0.66), strict=True))
    fit(FedCVT(epochs=1, **settings), small_federation(guests=1))
    assert made
    assert {name: getattr(made[0], name) for name in names} == settings


def with_encoder(federation: Federation, encoder: str) -> Federation:
    """The same, every party with features with this encoder."""
    host = replace(federation.host, encoder=encoder) if federation.host.has_features else federation.host
    return replace(federation, host=host, guests=tuple(replace(g, encoder=encoder) for g in federation.guests))


def test_a_party_with_few_rows_of_its_own_sends_those() -> None:
    federation = small_federation(guests=1)
    result = fit(FedCVT(epochs=1, batch_size=64), federation)
    own = result.rows["unaligned"]["shop1"]
    assert 0 < own < 64
    sizes = [entry.payload for entry in result.ledger.messages if entry.kind == "gradients"]
    assert sizes == [(TRAINED + own) * DIM * 4]


def test_without_unaligned_rows_it_still_trains() -> None:
    result = fit(FedCVT(epochs=2, batch_size=16), small_federation(keep=70))
    assert result.rows["unaligned"] == {"bank": 0, "shop1": 0}
    assert result.statements[0].startswith("In the epoch that is kept 0 of 0 unaligned rows drawn without a label")


# What each party sees is one of two shapes, and a little noise.


def of_shapes(label: str, *, host: bool, labels: str = "aligned", keep: int = 60) -> Federation:
    """The label is what both see, or whether what they see is the same, which neither alone can know."""
    random = np.random.default_rng(0)
    seen = random.integers(0, 2, (480, 2))
    if label == "both":
        seen[:, 1] = seen[:, 0]
    noise = 0.2 * random.normal(size=(2, 480, 3))
    tables = [
        Table(ids(480), {f"x{i}": 2.0 * seen[:, party] - 1 + noise[party, :, i] for i in range(3)}) for party in (0, 1)
    ]
    truth = seen[:, 0] if label == "both" else (seen[:, 0] == seen[:, 1]).astype(np.int64)
    guests = {"left": tables[0], "right": tables[1]}
    return Federation(
        PartyData("bank", guests.pop("left") if host else Table(ids(480))),
        truth,
        tuple(PartyData(name, table) for name, table in guests.items()),
        task="classification",
        metric="accuracy",
        labels=labels,
        test=TestRows(0.3),
        overlap=Overlap(keep),
        name="shapes",
    )


def said(result: Result) -> list[float]:
    """The numbers of its statement: accepted, of how many, known; of the validation rows: accepted, judged, right."""
    (statement,) = [each for each in result.statements if each.startswith("In the epoch that is kept")]
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", statement)]


@pytest.mark.parametrize("host", [True, False])
def test_pseudo_labels_are_accepted_where_it_is_easy_and_they_are_right(
    host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = watch_the_truth(monkeypatch, of_shapes("both", host=host))
    result = fit(FedCVT(epochs=15, learning_rate=5e-3), of_shapes("both", host=host))
    accepted, offered, known, vouched, judged, right = said(result)
    assert offered == 2 * 2 * 64  # two parties, two batches of the 54 training rows
    assert accepted > 0.9 * offered
    assert (known, judged) == (0, 2 * 6)
    assert vouched >= 10
    assert right == 100
    assert result.metrics["accuracy"] == 1
    assert true["right"] > 0.98 * true["accepted"] > 0


def watch_the_truth(monkeypatch: pytest.MonkeyPatch, federation: Federation) -> dict[str, int]:
    """Count how many pseudo-labels of the host's own unaligned rows, or of the first guest's, are true.

    The labels of those rows exist here, and no party is told.
    """
    seen: dict[str, int] = {"accepted": 0, "right": 0}
    drawn: list[torch.Tensor] = []
    rows_of, label = BesideUnaligned.rows_of, CrossView.label
    first = "bank" if federation.host.has_features else "left"

    def remembered(self: BesideUnaligned, me: Party, batch: torch.Tensor) -> torch.Tensor:
        rows = rows_of(self, me, batch)
        if me.name == first:
            drawn.append(rows[len(batch) :])
        return rows

    def counted(self: CrossView, *given: Any) -> Any:
        has_label, guess = label(self, *given)
        if drawn:  # the first party's come first
            truth = torch.from_numpy(np.asarray(federation.label))[drawn.pop()]
            seen["accepted"] += int(has_label.sum())
            seen["right"] += int((has_label & (guess == truth)).sum())
        return has_label, guess

    monkeypatch.setattr(BesideUnaligned, "rows_of", remembered)
    monkeypatch.setattr(CrossView, "label", counted)
    return seen


def test_hardly_any_is_accepted_where_no_party_alone_can_know() -> None:
    result = fit(FedCVT(epochs=15, learning_rate=5e-3, hidden=(16,)), of_shapes("same", host=False, keep=200))
    accepted, offered, *_ = said(result)
    assert accepted < 0.02 * offered
    assert (result.metrics["accuracy"] or 0) > 0.9  # though together they do


def test_a_host_that_has_labels_for_its_unaligned_rows_keeps_them() -> None:
    result = fit(FedCVT(epochs=1), of_shapes("both", host=True, labels="all"))
    _, offered, known, *_ = said(result)
    assert (offered, known) == (128, 128)


def test_where_no_validation_row_is_vouched_for_nothing_is_said_to_be_right() -> None:
    result = fit(FedCVT(epochs=1, joint_threshold=1.0), of_shapes("both", host=True))
    assert result.statements == (
        "In the epoch that is kept 0 of 256 unaligned rows drawn without a label got a pseudo-label, and 0 kept the "
        "label that the host had for them. Of validation rows judged as if one party alone had them, 0 of 12 got one, "
        "so that nothing is known of how right they are.",
    )


@pytest.mark.parametrize(("guests", "augment"), [(1, "none"), (1, "weak"), (3, "none")])
def test_it_learns_from_all_sides(guests: int, augment: str) -> None:
    federation = small_federation(rows=400, keep=250, guests=guests)
    result = fit(FedCVT(epochs=20, learning_rate=5e-3, augment=augment), federation)
    assert (result.metrics["auc"] or 0) > 0.9


def test_validation_rows_are_judged_from_the_training_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[tuple[torch.Size, torch.Size]] = []
    measure = CrossView.measure

    def watched(self: CrossView, parts: torch.Tensor, labels: torch.Tensor, reference: torch.Tensor) -> Any:
        judged.append((parts.shape, reference.shape))
        assert not (parts[0][:, None] == reference[0][None]).all(dim=2).any()
        return measure(self, parts, labels, reference)

    monkeypatch.setattr(CrossView, "measure", watched)
    fit(FedCVT(epochs=2), small_federation())
    assert judged == [((2, LABELLED - TRAINED, DIM), (2, TRAINED, DIM))] * 2


def test_it_stops_on_validation_rows_and_every_party_stops_with_it() -> None:
    result = fit(FedCVT(epochs=200, patience=2, learning_rate=0.05), small_federation(guests=2))
    verdicts = [entry for entry in result.ledger.messages if entry.kind == "verdict"]
    assert len(verdicts) < 2 * 100
    assert len(result.curve) == len(verdicts) / 2


def test_the_best_epoch_is_kept_by_every_party(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = iter(range(100))
    # The order of batches follows from the agreement, and that from the number of epochs.
    order = lambda me, purpose: torch.Generator().manual_seed(int(purpose[-1]))  # noqa: E731
    monkeypatch.setattr("vesica.protocol.party.Party.public_random", order)
    monkeypatch.setattr(fedcvt, "standing", lambda *given: (-float(next(worse)), 0.0))
    federation = small_federation(guests=2)
    once = fit(FedCVT(epochs=1, patience=0), federation)
    longer = fit(FedCVT(epochs=4, patience=3), federation)
    for name, model in once.models.items():
        for module, other in ((model.encoder, longer.models[name].encoder), (model.head, longer.models[name].head)):
            if module is not None:
                assert other is not None
                assert all(map(torch.equal, module.state_dict().values(), other.state_dict().values()))


def with_dims(**dims: int) -> Federation:
    federation = small_federation(guests=2)
    host, *guests = (replace(party, dim=dims.get(party.name)) for party in federation.parties)
    return replace(federation, host=host, guests=tuple(guests))


def test_every_party_is_as_wide_as_the_narrowest_made_even() -> None:
    result = fit(FedCVT(epochs=1), with_dims(shop1=9))
    head = result.models["bank"].head
    assert head is not None
    assert head.dims == {"bank": 8, "shop1": 8, "shop2": 8}
    specs = [model.encoder_spec for model in result.models.values()]
    assert [(spec.dim, spec.output) for spec in specs if spec is not None] == [(8, "halves")] * 3


def test_what_cannot_be_is_refused_in_one_sentence() -> None:
    with pytest.raises(
        InputError, match="fedcvt halves representations and the dim of 'shop2' is 1: give it 2 or more"
    ):
        fit(FedCVT(), with_dims(shop2=1))
    with pytest.raises(InputError, match="give it two parties with features or more"):
        fit(FedCVT(), small_federation(host_features=False))
    with pytest.raises(InputError, match="fedcvt gives rows pseudo-labels and cannot learn a regression"):
        fit(FedCVT(), small_federation(task="regression"))
    for temperature in (0, 1e-40, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"temperature of fedcvt is .*: give a number from 0.001 to 1000"):
            FedCVT(temperature=temperature)
    with pytest.raises(InputError, match="joint_threshold of fedcvt is 2: give a probability"):
        FedCVT(joint_threshold=2)
    with pytest.raises(InputError, match="local_threshold of fedcvt is -1: give a probability"):
        FedCVT(local_threshold=-1)


@pytest.mark.parametrize("width", [0, 7, 34])
def test_a_width_that_was_not_agreed_on_is_refused(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tell = Host.tell

    def wrong(me: Host, kind: str, *, scalars: Any) -> None:
        tell(me, kind, scalars={"width": width} if kind == "width" else scalars)

    monkeypatch.setattr(Host, "tell", wrong)
    with pytest.raises(
        ProtocolError, match=f"shop1: 'width' from 'bank' is {width}, expected an even number from 2 to"
    ):
        fit(FedCVT(epochs=1), small_federation())


def test_a_guest_that_leaves_aligned_rows_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Link.send

    def short(link: Link, kind: str, tensors: Any = None, **named: Any) -> None:
        is_batch = isinstance(tensors, torch.Tensor) and tensors.requires_grad
        send(link, kind, tensors[:30] if is_batch else tensors, **named)

    monkeypatch.setattr(Link, "send", short)
    with pytest.raises(ProtocolError, match="'representations' from 'shop1' has 30 rows, expected 36 or more"):
        fit(FedCVT(epochs=1, batch_size=64), small_federation())


@pytest.mark.parametrize("name", ["wrn", "cnn", "linear"])
def test_an_encoder_of_two_halves_is_rebuilt_from_its_values(name: str) -> None:
    spec = EncoderSpec(name, 128, ImageSchema(3, 16, 16, (0.5,) * 3, (0.2,) * 3), output="halves")
    again = EncoderSpec.from_json(spec.to_json())
    assert again == spec
    one, two = spec.build().eval(), again.build().eval()
    two.load_state_dict(one.state_dict())
    images = torch.randint(0, 255, (2, 3, 16, 16), dtype=torch.uint8)
    assert torch.equal(one(images), two(images))
    trunk, heads = one.trunk(images).relu(), one.heads
    assert torch.equal(one(images), torch.cat([heads[0](trunk), heads[1](trunk)], dim=1))
    assert [head.out_features for head in heads] == [64, 64]
