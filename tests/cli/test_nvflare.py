"""`vesica nvflare prepare | align | start`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Answer
from engines.nvflare.organisations import Processes, command, free_port, prepare_all, write_tables
from vesica.cli.nvflare import tell_the_host, wait_for_guests
from vesica.engines.nvflare.kits import Kit
from vesica.engines.nvflare.run_file import keep_waiting

METHOD = ("one-shot", "--set", "guest_steps=20", "--set", "host_epochs=3")
LIMIT = 300


def test_prepared_and_started_at_each_party_a_run_ends_with_the_result_at_the_host(
    vesica: Callable[..., Answer], tmp_path: Path
) -> None:
    federation, parties = write_tables(tmp_path, ["shop"]), tmp_path / "parties"
    federation.write_text(federation.read_text() + '[ids]\ncase = "lower"\n')
    (tmp_path / "shop.csv").write_text((tmp_path / "shop.csv").read_text().replace("\nc", "\nC"))
    where = ("--out", parties, "--address", "localhost", "--port", free_port())
    prepared = vesica("nvflare", "prepare", federation, *where)
    assert prepared.code == 0
    assert "for 'bank' alone, who runs the server" in prepared.out
    assert "vesica nvflare start FOLDER METHOD" in prepared.out
    for name in ("bank", "shop"):
        (parties / name / f"{name}.csv").write_bytes((tmp_path / f"{name}.csv").read_bytes())
    with Processes() as processes:
        each = [processes.start(*command("align", parties / name, "--doctor")) for name in ("bank", "shop")]
        told = [process.communicate(timeout=LIMIT)[0] for process in each]
        assert [process.returncode for process in each] == [0, 0], told
        assert "bank: 110 ids of 110 rows; 0 without an id, 0 repeated" in told[0]
        assert f"ids in common: 90; to {parties / 'shop' / 'common.csv'}" in told[1]
    with Processes() as processes:
        shop = processes.start(*command("start", parties / "shop", *METHOD))
        outputs = ("--json", tmp_path / "result.json", "--report", tmp_path / "report.html")
        bank = processes.start(*command("start", parties / "bank", *METHOD, *outputs))
        said = {"bank": bank.communicate(timeout=LIMIT)[0], "shop": shop.communicate(timeout=LIMIT)[0]}
        assert (bank.returncode, shop.returncode) == (0, 0), said
    assert "bank: 'shop' is here" in said["bank"]
    assert "shop: 'bank' is here" in said["shop"]
    assert all("finished: " in words for words in said.values())
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["method"], result["rounds"], result["seed"]) == ("one-shot", 3, None)
    assert (tmp_path / "report.html").exists()
    again = vesica("nvflare", "start", parties / "shop", *METHOD)
    assert again.code == 0
    assert "this run is finished" in again.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shop", "one-shoot"], "there is no method 'one-shoot'; did you mean 'one-shot'?"),
        (["shop", "one-shot", "--json", "-"], "the result is the host's: leave --json and --report to 'bank'"),
        (["nobody", "one-shot"], "was not made by `vesica nvflare prepare`"),
        (["shop", "one-shot", "--set", "steps=1"], "method 'one-shot' has no field 'steps'"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], said: str, vesica: Callable[..., Answer], tmp_path: Path
) -> None:
    parties = prepare_all(tmp_path, guests=["shop"])
    answer = vesica("nvflare", "start", parties / arguments[0], *arguments[1:])
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--case", "lowr"], "did you mean 'lower'"),
        (["--wait", "0"], "--wait is 0: give a number of seconds above 0"),
        (["--duplicates", "last"], "no rule 'last'"),
    ],
)
def test_bad_input_of_an_alignment_is_one_sentence(
    options: list[str], said: str, vesica: Callable[..., Answer], tmp_path: Path
) -> None:
    answer = vesica("nvflare", "align", prepare_all(tmp_path, guests=["shop"]) / "shop", *options)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_guest_looks_for_the_server_as_long_as_it_was_told(tmp_path: Path) -> None:
    """However long a party that was there may be silent."""
    shop = prepare_all(tmp_path, guests=["shop"]) / "shop"
    with Processes() as processes:
        asked = processes.start(*command("align", shop, "--arrive", "1", "--liveness", "3600"))
        said = asked.communicate(timeout=LIMIT)[0]
        assert asked.returncode == 2
    assert "did not let 'shop' in within 1 s: see that it is started there" in said
    assert not (shop / "runs" / ".alignment").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("local.toml", "common =", "comon =", "has an unknown key 'comon'; did you mean 'common'?"),
        ("local.toml", '"runs"', "3", "runs is 3 and should be a path"),
        ("local.toml", "common = ", "common ", "local.toml cannot be read as TOML"),
        ("local.toml", '"common.csv"', '"nowhere.csv"', "nowhere.csv: `vesica nvflare align` writes them there"),
        ("federation.toml", '"bank"', '"bench"', "has the host 'bench' and the server is of 'bank'"),
        ("shop.csv", "cust000,", "x000,", "1 of the 90 common ids, such as 'cust000', are not in the table of 'shop'"),
    ],
)
def test_what_a_party_puts_into_its_folder_is_checked_before_anything_starts(
    file: str, old: str, new: str, said: str, vesica: Callable[..., Answer], tmp_path: Path
) -> None:
    path = prepare_all(tmp_path, guests=["shop"]) / "shop" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    answer = vesica("nvflare", "start", path.parent, *METHOD)
    assert answer.code == 2
    assert said in answer.err


@pytest.mark.parametrize(("away", "code", "said"), [({"shop"}, 2, ["'shop' did not come within 7 s"]), (set(), 0, [])])
def test_a_host_whose_guest_does_not_come_back_says_who_and_ends_with_a_code(
    away: set[str],
    code: int,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep_waiting(tmp_path, bytes(16), ["shop"])
    monkeypatch.setattr("vesica.engines.nvflare.process.run_beside", lambda kit, program, arrive: away)
    monkeypatch.setattr("vesica.cli.nvflare_process.os._exit", sys.exit)
    kit = Kit.open(prepare_all(tmp_path, guests=["shop"]) / "bank")
    with pytest.raises(SystemExit) as end:
        wait_for_guests(kit, tmp_path, seconds=7.0)
    assert end.value.code == code
    words = capsys.readouterr().err
    assert "'shop' had not ended; staying up to 7 s" in words
    why = [line.removeprefix("vesica: ") for line in words.splitlines() if line.startswith("vesica: ")]
    assert [sentence.partition(":")[0] for sentence in why] == said


def test_a_host_that_waits_for_nobody_does_not_start_nvflare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.engines.nvflare.process.run_beside", None)
    wait_for_guests(Kit.open(prepare_all(tmp_path, guests=["shop"]) / "bank"), tmp_path, seconds=7.0)


def test_a_guest_that_could_not_say_that_it_had_finished_tries_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []
    keep_waiting(tmp_path, bytes(16), ["bank"])
    monkeypatch.setattr(
        "vesica.engines.nvflare.process.run_beside", lambda kit, program, arrive: tried.append(kit.name)
    )
    monkeypatch.setattr("vesica.cli.nvflare_process.os._exit", sys.exit)
    kit = Kit.open(prepare_all(tmp_path, guests=["shop"]) / "shop")
    with pytest.raises(SystemExit) as end:
        tell_the_host(kit, tmp_path, seconds=7.0)
    assert (end.value.code, tried) == (0, ["shop"])
    assert "'bank' may not know that; trying to tell it for up to 7 s" in capsys.readouterr().err
    tell_the_host(kit, tmp_path, seconds=7.0)
    assert tried == ["shop"]


def test_without_nvflare_it_says_what_to_install(
    vesica: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vesica.engines.nvflare.find_spec", lambda name: None)
    answer = vesica("nvflare", "prepare", tmp_path / "f.toml", "--out", tmp_path / "out", "--address", "localhost")
    assert answer.code == 2
    assert "pip install 'vesica[nvflare]'" in answer.err


def test_run_says_which_command_starts_nvflare(vesica: Callable[..., Answer]) -> None:
    answer = vesica("run", "one-shot", "--data", "credit", "--engine", "nvflare")
    assert answer.code == 2
    assert "use `vesica nvflare start`" in answer.err
