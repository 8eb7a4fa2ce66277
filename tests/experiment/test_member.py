"""One organisation's part of a run, between folders that share nothing but messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vesica.data import Federation
from vesica.data.membership import read_membership
from vesica.data.rows import split_rows
from vesica.errors import AgreementError, InputError, RunFolderError
from vesica.experiment import fit
from vesica.experiment.audit import audit
from vesica.experiment.fit import sort_out, validate_blindly
from vesica.experiment.folder import RunFolder
from vesica.experiment.member import Member, Plan
from vesica.experiment.result import Result
from vesica.methods import FedLocalSSL, FedOnce, FewShot, OneShot, SplitNN
from vesica.protocol.journal import Journal
from vesica.protocol.message import decode
from vesica.report.audit_page import write_audit

COMMON = 90
METHODS = {
    "one-shot": OneShot(guest_steps=20, host_epochs=3),
    "few-shot": FewShot(guest_steps=10, guest_patience=0, host_epochs=3, finetune_iterations=2),
    "fedonce": FedOnce(guest_epochs=2, host_epochs=2),
    "split-nn": SplitNN(epochs=2),
}


class NotThereError(Exception):
    """A message that a party waits for has not come."""


class Shelf:
    """Frames by sender, receiver and number; who finds nothing leaves, and comes again later."""

    def __init__(self) -> None:
        self.frames: dict[tuple[str, str, int], bytes] = {}

    def deliver(self, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        self.frames.setdefault((sender, receiver, sequence), bytes(frame))

    def check(self) -> None:
        pass

    def collect(
        self, receiver: str, sender: str, sequence: int, kind: str, *, within: float | None = None
    ) -> memoryview:
        if (sender, receiver, sequence) not in self.frames:
            raise NotThereError(kind)
        return memoryview(self.frames[sender, receiver, sequence])

    def now(self, party: str) -> float:
        return 0.0

    def resume(self, journal: Journal) -> None:
        pass


def write_tables(folder: Path) -> Path:
    """A bank with labels and columns, a shop; some customers are with one of them only."""
    random = np.random.default_rng(0)
    ids = [f"c{number:03d}" for number in range(COMMON + 40)]
    values = random.normal(size=(len(ids), 6))
    bought = values @ random.normal(size=6) > 0
    bank, shop = ids[: COMMON + 20], ids[:COMMON] + ids[COMMON + 20 :]
    place = {id: number for number, id in enumerate(ids)}
    lines = [f"{id},{values[place[id], 0]},{values[place[id], 1]},{int(bought[place[id]])}" for id in bank]
    (folder / "bank.csv").write_text("\n".join(["id,a,b,bought", *lines]))
    lines = [f"{id}," + ",".join(map(str, values[place[id], 2:])) for id in reversed(shop)]
    (folder / "shop.csv").write_text("\n".join(["id,c,d,e,f", *lines]))
    (folder / "federation.toml").write_text(
        'metric = "auc"\n[host]\nname = "bank"\ntable = "bank.csv"\nid = "id"\nlabel = "bought"\n'
        '[[guest]]\nname = "shop"\ntable = "shop.csv"\nid = "id"\n'
    )
    return folder / "federation.toml"


def common_ids() -> Any:
    return np.array([f"c{number:03d}" for number in reversed(range(COMMON))], dtype=object)


def member(path: Path, name: str, plan: Plan, out: Path) -> Member:
    return Member(plan, read_membership(path, name, common=common_ids()), name, common_ids(), out / name)


def take_turns(members: list[Member], shelf: Shelf) -> Result:
    """Each runs until it misses a message, again and again."""
    results: dict[str, Result | None] = {}
    for _ in range(400):
        for each in members:
            if each.me not in results:
                try:
                    results[each.me] = each.take_part(shelf, engine="in-process")
                except NotThereError:
                    continue
        if len(results) == len(members):
            return next(result for result in results.values() if result is not None)
    raise AssertionError("they never came to an end")


@pytest.mark.parametrize("name", METHODS)
def test_organisations_come_to_what_a_simulation_gives(name: str, tmp_path: Path) -> None:
    path, method = write_tables(tmp_path), METHODS[name]
    simulated = fit(method, Federation.from_toml(path), seed=3)
    members = [member(path, name, Plan(method, seed=3), tmp_path / "runs") for name in ("bank", "shop")]
    result = take_turns(members, Shelf())
    assert result.metrics == simulated.metrics
    assert result.ledger.messages == simulated.ledger.messages
    assert [milestone.metrics for milestone in result.milestones] == [
        milestone.metrics for milestone in simulated.milestones
    ]
    assert result.rows["aligned"] == simulated.rows["aligned"]
    ours = result.models["bank"].encoder
    theirs = simulated.models["bank"].encoder
    assert ours is not None
    assert theirs is not None
    for one, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_each_organisation_keeps_its_own_model_and_nothing_of_the_others(tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    members = [member(path, name, Plan(METHODS["one-shot"]), tmp_path / "runs") for name in ("bank", "shop")]
    take_turns(members, Shelf())
    kept = {name: {file.name for file in (tmp_path / "runs" / name).rglob("*")} for name in ("bank", "shop")}
    assert "curve.jsonl" in kept["bank"]
    for name, files in kept.items():
        assert {"model.safetensors", "ledger.jsonl", "result.json"} <= files
        assert not {"secret", "journal"} & files
        assert not (tmp_path / "runs" / name / ("shop" if name == "bank" else "bank")).exists()
    assert json.loads((tmp_path / "runs" / "shop" / "result.json").read_text())["party"] == "shop"


PRIVATE = {
    "weights": FedOnce(representation="codebook", epsilon=8.0, guest_epochs=1, host_epochs=1),
    "weights and rows": FedOnce(
        representation="fixed", epsilon=8.0, representation_epsilon=8.0, delta=0.1, guest_epochs=1, host_epochs=1
    ),
    "rows": FedOnce(representation="filters", representation_epsilon=8.0, host_epochs=1),
    "nothing": FedOnce(sigma_r=1.0, guest_epochs=1, host_epochs=1),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_guest_is_told_what_is_guaranteed_as_its_host_is(name: str, tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    result = take_turns([member(path, me, Plan(PRIVATE[name]), tmp_path) for me in ("bank", "shop")], Shelf())
    kept = {me: json.loads((tmp_path / me / "result.json").read_text()) for me in ("bank", "shop")}
    for field in ("epsilon", "delta", "protects", "statements"):
        assert kept["shop"][field] == kept["bank"][field]
    assert kept["shop"]["statements"] == list(result.statements) != []
    assert (kept["shop"]["epsilon"] is None) == (name == "nothing")


def test_without_a_seed_every_run_has_random_numbers_of_its_own(tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    metrics = []
    for run in ("one", "two"):
        members = [member(path, name, Plan(METHODS["one-shot"]), tmp_path / run) for name in ("bank", "shop")]
        metrics.append(take_turns(members, Shelf()).models["bank"].encoder)
    one, two = (next(iter(encoder.parameters())) for encoder in metrics if encoder is not None)
    assert not torch.equal(one, two)


def test_without_a_seed_nobody_can_draw_the_validation_rows_again(tmp_path: Path) -> None:
    """They are drawn from each class in turn: whoever knew the order would see some labels in it."""
    path = write_tables(tmp_path)
    drawn = []
    for run in ("one", "two"):
        shelf = Shelf()
        members = [member(path, name, Plan(SplitNN(epochs=1)), tmp_path / run) for name in ("bank", "shop")]
        take_turns(members, shelf)
        told = (decode(frame).tensors for (sender, _, _), frame in shelf.frames.items() if sender == "bank")
        drawn.append(next(tensors["validation"].tolist() for tensors in told if "validation" in tensors))
    simulated = split_rows(Federation.from_toml(path)).validation.tolist()
    assert len({tuple(rows) for rows in (*drawn, simulated)}) == 3
    assert {len(rows) for rows in drawn} == {len(simulated)}


def test_the_rows_that_validate_fewer_labels_are_drawn_with_the_secret_too(tmp_path: Path) -> None:
    federation = Federation.from_toml(write_tables(tmp_path))
    method = FedLocalSSL(label_counts=(20, 40))
    one, other = (sort_out(method, federation, limited=False, secret=secret) for secret in (1, 2))
    for split, another in zip((one[0], *one[1]), (other[0], *other[1]), strict=True):
        assert split.labelled.tolist() == another.labelled.tolist()
        assert split.validation.tolist() != another.validation.tolist()


def test_where_labels_are_private_no_secret_makes_validation_rows_look_at_them(tmp_path: Path) -> None:
    federation = Federation.from_toml(write_tables(tmp_path))
    blind = validate_blindly(split_rows(federation), seed=federation.overlap.seed).validation.tolist()
    for secret in (None, 1, 2):
        split, _ = sort_out(SplitNN(label_epsilon=1.0), federation, limited=False, secret=secret)
        assert split.validation.tolist() == blind


def test_the_secret_of_a_run_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    with pytest.raises(NotThereError):
        member(path, "shop", Plan(METHODS["one-shot"]), tmp_path / "runs").take_part(Shelf(), engine="in-process")
    secret = tmp_path / "runs" / "shop" / "shop" / "journal" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert len(secret.read_bytes()) == 32


def test_who_is_killed_just_before_the_end_can_still_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tables(tmp_path)
    members = [member(path, name, Plan(METHODS["one-shot"]), tmp_path / "runs") for name in ("bank", "shop")]
    finish = RunFolder.finish
    killed = []

    def die_once(self: RunFolder, *given: Any, **named: Any) -> None:
        if self.path not in killed:
            killed.append(self.path)
            raise NotThereError("killed")
        finish(self, *given, **named)

    monkeypatch.setattr(RunFolder, "finish", die_once)
    take_turns(members, Shelf())
    assert len(killed) == 2


def test_other_common_ids_are_refused(tmp_path: Path) -> None:
    path, shelf = write_tables(tmp_path), Shelf()
    bank = member(path, "bank", Plan(METHODS["one-shot"]), tmp_path / "runs")
    with pytest.raises(NotThereError):
        bank.take_part(shelf, engine="in-process")
    fewer = common_ids()[1:]
    shop = replace(
        member(path, "shop", bank.plan, tmp_path / "runs"),
        federation=read_membership(path, "shop", common=fewer),
        common=fewer,
    )
    with pytest.raises(AgreementError, match="'bank' has other common ids than the 89 here"):
        shop.take_part(shelf, engine="in-process")


def test_a_table_that_has_changed_is_refused_when_a_run_goes_on(tmp_path: Path) -> None:
    path, shelf = write_tables(tmp_path), Shelf()
    with pytest.raises(NotThereError):
        member(path, "bank", Plan(METHODS["one-shot"]), tmp_path / "runs").take_part(shelf, engine="in-process")
    rows = (tmp_path / "bank.csv").read_text().splitlines()
    rows[1] = "c000,9.5,9.5,1"
    (tmp_path / "bank.csv").write_text("\n".join(rows))
    with pytest.raises(RunFolderError, match="another run"):
        member(path, "bank", Plan(METHODS["one-shot"]), tmp_path / "runs").take_part(shelf, engine="in-process")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[overlap]\nkeep = 50", r"\[overlap\] keep draws rows in simulation"),
        ("[test]\nfraction = 0.2", None),
    ],
)
def test_what_only_a_simulation_draws_is_refused(line: str, said: str | None, tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    path.write_text(path.read_text() + line)
    if said is None:
        assert read_membership(path, "shop", common=common_ids()).label is None
    else:
        with pytest.raises(InputError, match=said):
            read_membership(path, "shop", common=common_ids())


def test_a_guest_does_not_read_another_table(tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    (tmp_path / "bank.csv").unlink()
    federation = read_membership(path, "shop", common=common_ids())
    assert federation.host.elsewhere
    assert len(federation.host.table) == COMMON


def test_common_ids_that_a_table_lacks_are_refused(tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    with pytest.raises(InputError, match="1 of the 91 common ids, such as 'nobody', are not in the table of 'shop'"):
        read_membership(path, "shop", common=np.append(common_ids(), "nobody"))


def test_an_unknown_party_and_a_missing_metric_are_refused(tmp_path: Path) -> None:
    path = write_tables(tmp_path)
    with pytest.raises(InputError, match="has no party 'shp'; did you mean 'shop'"):
        read_membership(path, "shp", common=common_ids())
    path.write_text(path.read_text().replace('metric = "auc"\n', ""))
    with pytest.raises(InputError, match="has no 'metric'"):
        read_membership(path, "shop", common=common_ids())


@pytest.mark.parametrize("name", ["one-shot", "split-nn"])
def test_each_organisation_can_audit_its_own_folder(name: str, tmp_path: Path) -> None:
    """As in a simulation with the same seed: the host its labels, the guest its columns, and nobody the other's."""
    path, method = write_tables(tmp_path), METHODS[name]
    plan = Plan(method, seed=3)
    members = [replace(member(path, party, plan, tmp_path), keep_messages=True) for party in ("bank", "shop")]
    take_turns(members, Shelf())
    fit(method, Federation.from_toml(path), seed=3, out=tmp_path / "both", keep_messages=True)
    attacks = {"bank": "gradients", "shop": "columns"}
    for party, attack in attacks.items():
        alone = audit(tmp_path / party, known=10, attacks=[attack])
        together = audit(tmp_path / "both", known=10, attacks=[attack])
        expected = [found for found in together.findings if found.owner == party]
        assert alone.findings == expected != []
        assert "The folders of" in alone.not_tried[0]
        write_audit(tmp_path / "page.html", alone.to_json())
