"""Whole runs by post: what a simulation gives, nothing that should not leave, and who does not come back."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
import torch

from engines.post.organisations import METHODS, PLANTED, Town, in_one_folder, is_finished
from vesica.data import Federation
from vesica.engines.post.desk import WaitingForFile
from vesica.engines.post.envelope import PostError
from vesica.errors import AgreementError, InputError, LateError
from vesica.experiment import fit
from vesica.experiment.member import Plan
from vesica.methods import FedOnce, FewShot, Pooled


def messages_in(folder: Path) -> list[str]:
    """But for the agreement, in which organisations also say which of the common rows are for testing."""
    return [line for line in (folder / "ledger.jsonl").read_text().splitlines() if '"agreement"' not in line]


@pytest.mark.parametrize("name", METHODS)
def test_a_run_by_post_comes_to_what_a_simulation_gives(name: str, tmp_path: Path) -> None:
    method = METHODS[name]
    town = Town(tmp_path, Plan(method, seed=3))
    result = town.train()
    simulated = fit(method, Federation.from_toml(in_one_folder(town, tmp_path / "all")), seed=3, out=tmp_path / "out")
    assert result.metrics == simulated.metrics
    assert result.ledger.messages == simulated.ledger.messages
    assert result.scoring.messages == simulated.scoring.messages
    assert [reached.metrics for reached in result.milestones] == [reached.metrics for reached in simulated.milestones]
    for party, desk in town.desks.items():
        ours, theirs = desk.run("first") / party, tmp_path / "out" / party
        models = [
            {str(path.relative_to(of)): path.read_bytes() for path in of.rglob("model.*")} for of in (ours, theirs)
        ]
        assert models[0] == models[1]
        assert len(models[0]) == 2 * (1 + len(result.milestones))
        assert messages_in(ours) == messages_in(theirs)


def test_three_organisations_train_by_post(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"], seed=3), ("shop", "camera"))
    result = town.train()
    simulated = fit(METHODS["one-shot"], Federation.from_toml(in_one_folder(town, tmp_path / "all")), seed=3)
    assert result.metrics == simulated.metrics
    assert result.ledger.messages == simulated.ledger.messages


def write_ids_otherwise(town: Town, rules: str) -> None:
    """The shop writes the same ids in capitals, with spaces; the rules are everybody's."""
    for name in ("shop.csv", "common.csv"):
        path = town.files["shop"].with_name(name)
        lines = path.read_text().split("\n")
        path.write_text("\n".join([lines[0], *(" C" + line[1:] for line in lines[1:])]))
    for file in town.files.values():
        file.write_text(file.read_text() + rules)


def test_ids_that_parties_write_in_their_own_ways_meet_by_the_rules(tmp_path: Path) -> None:
    town, plain = (Town(tmp_path / name, Plan(METHODS["one-shot"], seed=3)) for name in ("rules", "plain"))
    write_ids_otherwise(town, '[ids]\ntrim = true\ncase = "lower"\n')
    result, expected = town.train(), plain.train()
    assert result.metrics == expected.metrics
    assert result.ledger.messages == expected.ledger.messages
    folder = in_one_folder(town, tmp_path / "all")
    simulated = fit(METHODS["one-shot"], Federation.from_toml(folder), seed=3)
    assert result.metrics == simulated.metrics


def test_other_rules_for_ids_at_one_party_are_refused(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"]))
    town.files["shop"].write_text(town.files["shop"].read_text() + '[ids]\ncase = "upper"\n')
    with pytest.raises(WaitingForFile):
        town.act("bank")
    town.carry_all()
    with pytest.raises(AgreementError, match=r"has other common ids than the 60 here: .* the same rules for ids"):
        town.act("shop")


def shapes_of(value: str) -> list[bytes]:
    """A value as a file may hold it."""
    number = float(value)
    return [value.encode(), struct.pack("<d", number), struct.pack("<f", number), str(int(number)).encode()]


def files_for_others(town: Town, party: str) -> list[Path]:
    """All that others have, and all that is meant for them; every file, hidden ones too."""
    found = [path for name, desk in town.desks.items() if name != party for path in desk.path.rglob("*")]
    found += [*(town.desks[party].path / "outbox").rglob("*"), town.desks[party].card(party)]
    return [path for path in found if path.is_file()]


@pytest.mark.parametrize("name", ["one-shot", "split-nn"])
def test_no_secret_and_no_raw_row_reaches_another(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    town = Town(tmp_path, Plan(METHODS[name]), keep_messages=True)
    town.train()
    logged = capfd.readouterr()
    said = (logged.out + logged.err + caplog.text).encode()
    for party, desk in town.desks.items():
        secrets = [getattr(desk.identity(), key).private_bytes_raw() for key in ("signing", "opening")]
        planted = [*shapes_of(PLANTED[party]), *secrets, *(key.hex().encode() for key in secrets)]
        planted.append(f"{party}-a".encode())  # a column's name is its owner's too
        own = (desk.path / "identity.json").read_bytes() + town.files[party].with_name(f"{party}.csv").read_bytes()
        assert planted[0] in own  # so the search would find them
        assert planted[-2] in own
        others = files_for_others(town, party)
        assert len(others) > 10
        for path in others:
            content = path.read_bytes()
            assert [value for value in planted if value in content] == [], path
        assert [value for value in planted if value in said] == []


def test_files_in_the_outbox_tell_nothing_of_the_ids(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"]), keep_messages=True)
    town.train()
    files = list(tmp_path.glob("desks/*/outbox/*/*"))
    assert len(files) >= 6
    for path in files:
        assert b"customer-007" not in path.read_bytes()


def test_keys_and_secrets_are_in_no_folder_of_a_run(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"]))
    with pytest.raises(WaitingForFile):
        town.act("bank")
    desk = town.desks["bank"]
    secrets = [getattr(desk.identity(), key).private_bytes_raw() for key in ("signing", "opening")]
    for path in desk.run("first").rglob("*"):
        if path.is_file():
            assert not any(key in path.read_bytes() or key.hex().encode() in path.read_bytes() for key in secrets)


def test_other_settings_at_one_party_are_refused_and_named(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"]))
    with pytest.raises(WaitingForFile):
        town.act("bank")
    town.carry_all()
    town.plan = Plan(FewShot(guest_steps=10))
    with pytest.raises(PostError, match="of 'bank' is of a run 'first' with other settings of the method"):
        town.act("shop")
    town.plan = Plan(METHODS["one-shot"], wire="float16")
    shutil.rmtree(town.desks["shop"].run("first"))
    with pytest.raises(PostError, match="with other settings of the method"):
        town.act("shop")
    town.plan = Plan(METHODS["one-shot"])
    town.files["shop"].write_text(town.files["shop"].read_text() + "[test]\nfraction = 0.3\n")
    shutil.rmtree(town.desks["shop"].run("first"))
    with pytest.raises(PostError, match="with other settings of the federation"):
        town.act("shop")


def test_a_mistyped_first_command_is_undone_as_its_refusal_says(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"], seed=3))
    with pytest.raises(WaitingForFile):
        town.act("bank")
    town.carry_all()
    town.plan = Plan(FewShot(guest_steps=10), seed=3)
    with pytest.raises(PostError, match="if the mistake is here, move runs/first of this desk away before"):
        town.act("shop")
    town.plan = Plan(METHODS["one-shot"], seed=3)
    town.desks["shop"].run("first").rename(tmp_path / "away")
    assert town.train().metrics == Town(tmp_path / "plain", town.plan).train().metrics


def test_a_simulation_is_refused_by_post_and_post_by_a_simulation(tmp_path: Path) -> None:
    town = Town(tmp_path, Plan(Pooled()))
    with pytest.raises(InputError, match="needs all parties in one place"):
        town.act("bank")
    federation = Federation.from_toml(in_one_folder(town, tmp_path / "all"))
    with pytest.raises(InputError, match="every party runs its own part: use `vesica post run`"):
        fit(METHODS["one-shot"], federation, engine="post")


class Calendar:
    """In place of the computer's."""

    def __init__(self) -> None:
        self.seconds = 1e9

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    calendar = Calendar()
    monkeypatch.setattr("vesica.experiment.post.now", calendar)
    return calendar


def come_to_representations(town: Town) -> None:
    """All have agreed; from here on the camera is not heard of again."""
    for name in ("bank", "shop", "camera"):
        with pytest.raises(WaitingForFile):
            town.act(name)
        town.carry_all()
    for path in town.desks["bank"].inbox.glob("first.camera.bank.*"):
        if not path.name.endswith("000001.post"):
            path.unlink()


def test_a_guest_that_never_comes_back_is_left_out_where_a_method_allows_it(tmp_path: Path, calendar: Calendar) -> None:
    plan = Plan(FedOnce(guest_epochs=2, host_epochs=2, party_dropout=0.3), wait=100.0, seed=3)
    town = Town(tmp_path, plan, ("shop", "camera"))
    come_to_representations(town)
    for _ in range(3):
        with pytest.raises(WaitingForFile, match=r"first\.camera\.bank\.000002\.post"):
            town.act("bank")
        assert town.desks["bank"].state("first") == "waits for first.camera.bank.000002.post"
        calendar.seconds += 40  # counted from the first time, however often the command is given
    with pytest.raises(WaitingForFile, match="'shop'"):  # to score the test rows
        town.act("bank")
    town.carry_all()
    town.act("shop")
    town.carry_all()
    result = town.act("bank")
    assert result is not None
    assert result.missing == ("camera",)
    assert any("'camera' did not answer within 100 s and was left out" in sentence for sentence in result.statements)


def test_where_a_method_needs_every_guest_the_run_stops_with_its_name(tmp_path: Path, calendar: Calendar) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"], wait=100.0), ("shop", "camera"))
    come_to_representations(town)
    with pytest.raises(WaitingForFile, match="from 'camera'"):
        town.act("bank")
    calendar.seconds += 101
    with pytest.raises(LateError, match=r"'camera' has not sent message 2 \('representations'\)"):
        town.act("bank")
    assert not is_finished(town.desks["bank"])
    town.carry_all()  # it does come: the run goes on
    with pytest.raises(WaitingForFile):
        town.act("bank")


def test_a_guest_waits_for_its_host_however_long(tmp_path: Path, calendar: Calendar) -> None:
    town = Town(tmp_path, Plan(METHODS["one-shot"], wait=100.0))
    for _ in range(2):
        with pytest.raises(WaitingForFile, match="from 'bank'"):
            town.act("shop")
        calendar.seconds += 1000


@pytest.mark.parametrize("wait", [0.0, -1.0, float("inf"), float("nan")])
def test_a_wait_nobody_can_mean_is_refused(wait: float, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give a number of seconds above 0"):
        Town(tmp_path, Plan(METHODS["one-shot"], wait=wait)).act("bank")


def test_a_guest_that_never_answers_at_all_stops_the_run_with_its_name(tmp_path: Path, calendar: Calendar) -> None:
    plan = Plan(FedOnce(guest_epochs=2, host_epochs=2, party_dropout=0.3), wait=100.0)
    town = Town(tmp_path, plan, ("shop", "camera"))
    for _ in range(2):
        with pytest.raises(WaitingForFile, match="from 'shop'"):
            town.act("bank")
        calendar.seconds += 50
    calendar.seconds += 1
    with pytest.raises(LateError, match=r"'shop' has not sent message 1 \('agreement'\)"):
        town.act("bank")


def test_the_same_models_come_out_whatever_the_order_of_the_post(tmp_path: Path) -> None:
    """Files are carried in bursts, some twice, some late, all under other names."""
    expected = Town(tmp_path / "plain", Plan(METHODS["split-nn"], seed=3)).train()
    town = Town(tmp_path / "odd", Plan(METHODS["split-nn"], seed=3))
    calls = iter(range(10_000))

    def carry_oddly() -> None:
        for name, desk in town.desks.items():
            (other,) = set(town.desks) - {name}
            for path in sorted(town.desks[other].outbox(name).glob("*"), reverse=True):
                for _ in range(2):
                    (desk.inbox / f"mail {next(calls):05d}").write_bytes(path.read_bytes())

    town.carry_all = carry_oddly  # type: ignore[method-assign]
    result = town.train()
    assert result.metrics == expected.metrics
    assert result.ledger.messages == expected.ledger.messages
    ours, theirs = result.models["bank"].head, expected.models["bank"].head
    for one, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert torch.equal(one, other)
