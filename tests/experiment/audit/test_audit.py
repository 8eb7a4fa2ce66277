"""The audit of whole runs: leaky ones are caught, guarded ones bounded, and each party can audit its own folder."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engines.post.organisations import METHODS as BY_POST
from engines.post.organisations import Town
from federations import quick, small_federation
from vesica.attacks.completion import Completion
from vesica.attacks.inversion import Inversion
from vesica.attacks.membership import bound
from vesica.attacks.stand_in import StandIn
from vesica.data import Federation, Overlap, PartyData, Table, TestRows
from vesica.data.rows import split_rows
from vesica.errors import InputError, RunFolderError
from vesica.experiment import fit
from vesica.experiment.again import remake_federation
from vesica.experiment.audit import Audit, Finding, Shadows, audit, by_shadows, feature_attacks, label_attacks, sweep
from vesica.experiment.audit.shadows import Pool, learned_from, strength_of
from vesica.experiment.audit.transcript import Transcript
from vesica.experiment.member import Plan
from vesica.methods import FedOnce, OneShot, SplitNN

ONE_SHOT = OneShot(guest_steps=10, host_epochs=2, batch_size=16)


def found(audited: Audit, *words: str) -> list[Finding]:
    return [f for f in audited.findings if all(word in f"{f.attacker} {f.attack} {f.measure}" for word in words)]


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "run"
    fit(ONE_SHOT, small_federation(rows=300, keep=120), out=folder, keep_messages=True)
    return folder


def test_one_shot_without_defence_gives_the_labels_away_and_that_is_said_first(leaky: Path) -> None:
    audited = audit(leaky, known=20)
    (purity,) = found(audited, "shop1", "k-means", "purity")
    assert purity.measured.value == 1.0
    assert purity.measured.told_apart
    assert audited.findings[0].beyond == 1.0
    assert "gradients" in audited.findings[0].attack
    assert audited.guarantees == []


def test_what_each_party_received_is_counted(leaky: Path) -> None:
    got = {(each.receiver, each.kind): each for each in audit(leaky, attacks=[]).got}
    assert got["shop1", "gradients"].rows == 120
    assert got["shop1", "gradients"].messages == 1
    assert got["bank", "representations"].messages == 3  # two of the aligned rows, one of the test rows
    assert got["bank", "representations"].rows == 120 + 90
    ledger = [json.loads(line) for line in (leaky / "bank" / "ledger.jsonl").read_text().splitlines()]
    assert sum(each.bytes for each in got.values()) == sum(line["wire"] for line in ledger)


def test_a_host_alone_can_see_what_its_gradients_tell(leaky: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(leaky, tmp_path / "run")
    shutil.rmtree(folder / "shop1")
    audited = audit(folder, known=20)
    assert found(audited, "shop1", "k-means", "purity")[0].measured.value == 1.0
    assert not found(audited, "completion")
    assert not found(audited, "inverse")
    assert "The folders of shop1 are not here" in audited.not_tried[0]


def test_a_guest_alone_can_see_what_its_representations_tell(leaky: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(leaky, tmp_path / "run")
    shutil.rmtree(folder / "bank")
    audited = audit(folder, known=20)
    assert found(audited, "bank", "inverse of the representations")
    assert not found(audited, "shop1")


def test_label_privacy_lowers_what_is_found_and_is_named_as_proven(leaky: Path, tmp_path: Path) -> None:
    private = OneShot(guest_steps=10, host_epochs=2, batch_size=16, label_epsilon=0.5)
    fit(private, small_federation(rows=340, keep=120), out=tmp_path / "run", keep_messages=True)
    audited = audit(tmp_path / "run", attacks=["gradients"])
    (recall,) = found(audited, "k-means", "recall")
    assert recall.measured.value < 0.8  # of 120 labels 62 % are kept
    assert "with epsilon 0.500 and delta 0 of what is named next; neighbours differ in" in audited.guarantees[0]
    run = Transcript.open(tmp_path / "run")
    share, kept = float(run.labels[:120].double().mean()), 1 / (1 + np.exp(-0.5))
    best = sum(max(kept * each, (1 - kept) * (1 - each)) for each in (share, 1 - share))
    said = [f for f in audited.findings if f"The released labels alone tell {best:.3f} of these" in f.detail]
    assert said == found(audited, "k-means", "purity")
    (rate,) = found(audit(tmp_path / "run", attacks=["membership"]), "1.0% false")
    assert rate.bound is None  # no guarantee for records


def test_noise_on_what_learned_encoders_give_is_proven_of_a_released_row_alone(tmp_path: Path) -> None:
    method = FedOnce(guest_epochs=1, host_epochs=1, representation_epsilon=8.0, delta=1e-3)
    result = fit(method, small_federation(rows=300, keep=120), out=tmp_path / "run", keep_messages=True)
    assert result.privacy is None
    (proven,) = audit(tmp_path / "run", attacks=[]).guarantees
    assert "with epsilon 8.000 for one release" in proven
    assert "no epsilon is stated for the run as a whole" in proven


def test_the_cosine_is_with_rows_of_the_second_class_which_are_not_scored(
    leaky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Tensor] = []

    def cosines(observed: Iterable[tuple[Tensor, Tensor]], known: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.cat([rows for rows, _ in observed])
        asked.append(known)
        return rows, torch.isin(rows, known).float()

    monkeypatch.setattr(label_attacks, "cosines", cosines)
    (finding,) = found(audit(leaky, known=20, attacks=["gradients"]), "cosine")
    assert Transcript.open(leaky).labels[asked[0]].tolist() == [1] * 20
    assert finding.measured.value == 0.5


def test_a_private_run_can_be_swept_and_no_other_run_is_taken_for_it(tmp_path: Path) -> None:
    write_tables(tmp_path)
    federation = Federation.from_toml(tmp_path / "federation.toml")
    fit(replace(ONE_SHOT, label_epsilon=1.0), federation, out=tmp_path / "run", keep_messages=True)
    values = ["none", "1"]
    options = {"out": tmp_path / "swept", "attacks": ["gradients"]}
    first = [audited.to_json() for _, audited in sweep(tmp_path / "run", "label_epsilon", values, **options)]
    again = [audited.to_json() for _, audited in sweep(tmp_path / "run", "label_epsilon", values, **options)]
    assert again == first
    fit(replace(ONE_SHOT, label_epsilon=1.0), federation, seed=5, out=tmp_path / "other", keep_messages=True)
    with pytest.raises(RunFolderError, match="label_epsilon-none holds another run: give the sweep another folder"):
        next(sweep(tmp_path / "other", "label_epsilon", values, **options))


def test_model_completion_is_scored_on_other_rows_and_beside_what_one_has_at_home(
    leaky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guess that knows the known rows and nothing else is worth nothing; the home's encoder is not the run's."""
    seen: list[tuple[object, Tensor]] = []

    def guess(
        self: Completion, encoder: nn.Module, inputs: Tensor, *, known: Tensor, labels: Tensor, **_: object
    ) -> Tensor:
        seen.append((encoder, known))
        chances = torch.full((len(inputs), 2), 0.5)
        chances[known] = torch.nn.functional.one_hot(labels, 2).float()
        return chances

    monkeypatch.setattr(Completion, "guess", guess)
    (finding,) = found(audit(leaky, known=20, attacks=["completion"], styles=["plain"]), "completion")
    assert finding.measured.value == 0.5
    assert f"{120 + 90 - 20} common rows" in finding.secret
    (of_run, known), (at_home, same) = seen[-1], seen[0]
    assert of_run is not at_home
    assert torch.equal(known, same)
    assert finding.at_home is not None  # of the columns alone


def test_without_the_run_a_guest_may_take_the_style_that_is_best_there(
    leaky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A style that finds everything, with whatever encoder, leaves nothing that the run is to blame for."""
    run = Transcript.open(leaky)

    def guess(self: Completion, encoder: nn.Module, inputs: Tensor, **_: object) -> Tensor:
        chances = torch.full((len(inputs), 2), 0.5)
        if self.style == "plain":
            chances[: len(run.labels)] = torch.nn.functional.one_hot(run.labels, 2).float()
        return chances

    monkeypatch.setattr(Completion, "guess", guess)
    completed = found(audit(leaky, known=20, attacks=["completion"]), "completion")
    assert sorted(f.measured.value for f in completed) == [0.5, 1.0]
    assert [f.at_home for f in completed] == [1.0, 1.0]
    assert all(f.beyond == 0.0 for f in completed)


def test_columns_of_rows_that_are_not_known_are_scored(leaky: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def guess(self: Inversion, known: Tensor, inputs: Tensor, *, representations: Tensor, **_: object) -> Tensor:
        asked.append(len(representations))
        return inputs.float().mean(dim=0).expand(len(representations), -1)

    monkeypatch.setattr(Inversion, "guess", guess)
    often, once = sorted(found(audit(leaky, known=20, attacks=["columns"]), "bank", "inverse"), key=lambda f: f.secret)
    assert sorted(asked) == [70, 100]
    for finding in (often, once):
        assert finding.measured.value == pytest.approx(0.0, abs=1e-6)
        assert not finding.measured.told_apart


def test_columns_that_are_sent_come_back_whole(tmp_path: Path) -> None:
    fit(quick("pooled"), small_federation(), out=tmp_path / "run", keep_messages=True)
    (finding,) = found(audit(tmp_path / "run", known=10, attacks=["columns"]), "bank", "inverse of the columns")
    assert finding.measured.value > 0.98


def noisy(rows: int) -> Federation:
    """Labels that follow from nothing: whatever a model knows of them it has learned by heart."""
    random = np.random.default_rng(3)
    ids = np.array([f"p{i:04d}" for i in range(rows)], dtype=object)
    tables = [Table(ids, {f"x{i}": random.normal(size=rows) for i in range(8)}) for _ in range(2)]
    return Federation(
        PartyData("bank", tables[0]),
        random.integers(0, 2, rows),
        (PartyData("shop", tables[1]),),
        task="classification",
        metric="accuracy",
        test=TestRows(0.7),
        overlap=Overlap(),
    )


def test_a_model_that_learned_by_heart_is_caught(tmp_path: Path) -> None:
    method = SplitNN(epochs=100, patience=0, weight_decay=0.0, learning_rate=3e-3, hidden=(256,))
    fit(method, noisy(500), out=tmp_path / "run", keep_messages=True)
    (area,) = found(audit(tmp_path / "run", attacks=["membership"]), "threshold", "AUC")
    assert area.measured.low > 0.6
    caught = audit(tmp_path / "run", attacks=[]).with_more(by_shadows(tmp_path / "run", Shadows(method, noisy(500), 3)))
    (area,) = found(caught, "likelihood ratios", "AUC")
    assert area.measured.low > 0.65
    assert "of 3 shadow federations on average" in area.detail
    few = "There is no true-positive rate at 0.1% false positives by likelihood ratios of 3 shadow federations"
    assert any(reason.startswith(few) for reason in caught.not_tried)


def test_a_model_that_learned_little_is_not(tmp_path: Path) -> None:
    method = SplitNN(epochs=1, patience=0)
    fit(method, noisy(500), out=tmp_path / "run", keep_messages=True)
    (rate,) = found(audit(tmp_path / "run", attacks=["membership"]), "threshold", "1.0% false")
    assert not rate.measured.told_apart
    shadowed = list(by_shadows(tmp_path / "run", Shadows(method, noisy(500), 3)))
    assert not any(each.measured.told_apart for each in shadowed if isinstance(each, Finding))


def test_a_shadow_has_as_many_rows_as_the_run_and_learned_from_those_it_does_not_validate_with(tmp_path: Path) -> None:
    method, federation = SplitNN(epochs=1), noisy(200)
    fit(method, federation, out=tmp_path / "run", keep_messages=True)
    run = Transcript.open(tmp_path / "run")
    assert Pool.draw(run, federation, seed=0).size == len(run.of_use("labelled")) == 60
    trained = split_rows(federation).aligned_ids[run.of_use("train").numpy()]
    assert len(trained) < 60
    assert sorted(learned_from(method, federation)) == sorted(trained)


def test_how_many_shadows_leave_a_row_out_is_said() -> None:
    trained = torch.tensor([[True, True, False, True], [True, False, False, True]])
    assert strength_of(trained).startswith("A row is left out by 0.8 of 2 shadow federations on average, and 50% of")


def labelled_at_random(labels: list[int]) -> Federation:
    random, rows = np.random.default_rng(0), len(labels)
    ids = np.array([f"p{i:04d}" for i in range(rows)], dtype=object)
    tables = [Table(ids, {f"x{i}": random.normal(size=rows) for i in range(4)}) for _ in range(2)]
    return Federation(
        PartyData("bank", tables[0]),
        random.permutation(np.array(labels)),
        (PartyData("shop", tables[1]),),
        task="classification",
        metric="accuracy",
        test=TestRows(0.3),
        overlap=Overlap(),
    )


def test_what_too_few_rows_or_too_many_classes_do_not_allow_is_said(tmp_path: Path) -> None:
    fit(SplitNN(epochs=2), labelled_at_random([*range(10)] * 4), out=tmp_path / "run", keep_messages=True)
    said = "\n".join(audit(tmp_path / "run", known=5).not_tried)
    assert "Label inference by model completion could not be run: 5 known rows of 40 rows and 10 classes" in said
    assert "The representations of 'shop' were not inverted by 'bank' where only 12 rows were shown once" in said
    assert "The norm, the direction and the cosine of gradients were not tried" in said
    for at in ("1.0%", "0.1%"):
        assert f"There is no true-positive rate at {at} false positives by a threshold on the loss: 12 rows" in said
    assert "in the style 'mixmatch' was not asked for" in said


def test_a_class_of_one_row_leaves_no_row_for_the_cosine(tmp_path: Path) -> None:
    fit(SplitNN(epochs=1), labelled_at_random([0] * 58 + [1] * 2), out=tmp_path / "run", keep_messages=True)
    audited = audit(tmp_path / "run", attacks=["gradients"])
    assert not found(audited, "cosine")
    assert any(
        "The cosine of the gradients of 'shop' was not tried: 1 of the rows" in each for each in audited.not_tried
    )


def test_a_guest_that_receives_nothing_about_rows_is_named(tmp_path: Path) -> None:
    fit(quick("fedonce"), small_federation(), out=tmp_path / "run", keep_messages=True)
    said = audit(tmp_path / "run", known=10, attacks=["gradients", "completion"]).not_tried
    assert said[0] == "No gradients of single rows came to 'shop1': labels were not guessed from them."
    assert said[1].startswith("Model completion was not tried for 'shop1': nothing about rows came to it")


def test_shadows_without_the_folder_of_a_party_are_said_not_to_have_been_trained(leaky: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(leaky, tmp_path / "run")
    shutil.rmtree(folder / "shop1")
    (said,) = by_shadows(folder, Shadows(ONE_SHOT, small_federation(rows=300, keep=120), 2))
    assert "Shadow federations were not trained" in str(said)


def test_folders_of_a_run_by_post_are_audited_at_home(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(BY_POST["one-shot"]), keep_messages=True)
    town.train()
    at_bank, at_shop = (audit(town.desks[name].run("first"), known=10) for name in ("bank", "shop"))
    assert found(at_bank, "shop", "k-means", "purity")[0].measured.value == 1.0
    assert found(at_shop, "bank", "inverse of the representations")
    assert {f.owner for f in at_bank.findings} == {"bank"}
    assert {f.owner for f in at_shop.findings} == {"shop"}


def test_a_guarantee_for_records_bounds_what_membership_can_reach(tmp_path: Path) -> None:
    method = FedOnce(representation="filters", epsilon=2.0, host_epochs=2, batch_size=16)
    result = fit(method, noisy(400), out=tmp_path / "run", keep_messages=True)
    assert result.privacy is not None
    (rate,) = found(audit(tmp_path / "run", attacks=["membership"]), "threshold", "1.0% false")
    assert rate.bound == bound(result.privacy.epsilon, result.privacy.delta, at=0.01)
    assert rate.measured.low <= rate.bound < 0.1


def test_a_sweep_runs_the_same_rows_with_each_value(tmp_path: Path) -> None:
    write_tables(tmp_path)
    federation = Federation.from_toml(tmp_path / "federation.toml")
    fit(ONE_SHOT, federation, out=tmp_path / "run", keep_messages=True)
    swept = sweep(tmp_path / "run", "label_epsilon", ["none", "0.5"], out=tmp_path / "swept", attacks=["gradients"])
    done = dict(swept)
    assert done["none"].run["epsilon"] is None
    assert done["0.5"].run["epsilon"] == 0.5
    clear, private = (found(done[value], "k-means", "recall")[0].measured.value for value in ("none", "0.5"))
    assert private < clear == 1.0
    with pytest.raises(InputError, match="method 'one-shot' has no field 'epsilom'"):
        next(sweep(tmp_path / "run", "epsilom", ["1"], out=tmp_path / "swept"))
    (tmp_path / "bank.csv").write_text((tmp_path / "bank.csv").read_text().replace("p001", "q001"))
    with pytest.raises(RunFolderError, match="is of other rows than its data set or"):
        remake_federation(tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    run["config"]["method"]["gone"] = False
    (tmp_path / "run" / "run.json").write_text(json.dumps(run))
    with pytest.raises(InputError, match="'one-shot' has no field 'gone' here: it was run by another version"):
        remake_federation(tmp_path / "run")


def write_tables(folder: Path) -> None:
    federation = small_federation(rows=200, keep=200)
    for party in federation.parties:
        heads, columns = ["id", *party.table.columns], [party.table.ids, *party.table.columns.values()]
        if party.name == "bank":
            heads, columns = [*heads, "bought"], [*columns, federation.label]
        lines = [",".join(heads), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
        (folder / f"{party.name}.csv").write_text("\n".join(lines))
    (folder / "federation.toml").write_text(
        '[host]\nname = "bank"\ntable = "bank.csv"\nid = "id"\nlabel = "bought"\n'
        '[[guest]]\nname = "shop1"\ntable = "shop1.csv"\nid = "id"\n'
    )


def test_too_few_known_rows_are_refused(leaky: Path) -> None:
    with pytest.raises(InputError, match="known is 2: give the number of rows known from elsewhere, 3 or more"):
        audit(leaky, known=2)
    with pytest.raises(InputError, match="there is no attack 'gradient'; did you mean 'gradients'"):
        audit(leaky, attacks=["gradient"])


def test_what_a_top_that_was_averaged_adds_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_attacks, "FITTED", 3)
    monkeypatch.setattr(sys.modules["vesica.experiment.audit.audit"], "Inversion", lambda: Inversion(steps=()))
    fit(quick("fedhssl"), small_federation(rows=200, keep=80), out=tmp_path / "run", keep_messages=True)
    audited = audit(tmp_path / "run", known=20, attacks=("columns",))
    helped = found(audited, "bank", "an inverse of the representations, with its encoder's top")
    assert len(helped) == len(found(audited, "bank", "an inverse of the representations (")) > 0
    assert not found(audited, "shop1", "top")


def test_the_top_that_is_used_is_the_last_one_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(quick("fedhssl"), small_federation(rows=120, keep=60), out=tmp_path / "run", keep_messages=True)
    run, used = Transcript.open(tmp_path / "run"), []
    monkeypatch.setattr(StandIn, "__post_init__", lambda self: used.append(self.top))
    feature_attacks.ways_of(run, run.views["bank"], "shop1", "representations", device="cpu")
    sent = [seen.message.tensors for seen in run.views["bank"].received if seen.kind == "weights"]
    assert len(sent) > 1
    (top,) = used
    assert top
    assert all(torch.equal(weight, sent[-1][f"top.{name}"]) for name, weight in top.items())
    assert any(not torch.equal(weight, sent[0][f"top.{name}"]) for name, weight in top.items())
