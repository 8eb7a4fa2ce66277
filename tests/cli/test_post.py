"""`vesica post`, as people use it: two desks, and nothing but `cp` between them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Answer
from vesica.cli.post import WAITING

ROOT = Path(__file__).parents[2]
RUN = ("--set", "guest_steps=20", "--set", "host_epochs=2")
Vesica = Callable[..., Answer]


def shell_blocks(document: str) -> list[list[str]]:
    found = re.findall(r"```shell\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    return [[line for line in block.splitlines() if line] for block in found]


@pytest.fixture
def credit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the examples in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def give(vesica: Vesica, command: str) -> Answer:
    program, *arguments = shlex.split(command)
    if program == "vesica":
        return vesica(*arguments)
    assert program == "cp"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_one_shot_on_credit_between_two_folders_as_the_readme_says(vesica: Vesica, credit: Path) -> None:
    begin, again = shell_blocks("README.md")
    for command in begin:
        assert give(vesica, command).code == 0, command
    codes: dict[str, list[int]] = {"bank": [], "shop": []}
    for command in again * 4:
        if codes["bank"][-1:] == [0]:
            break
        answer = give(vesica, command)
        assert answer.code in (0, WAITING), f"{command}\n{answer.err}"
        if command.startswith("vesica"):
            codes["bank" if "--desk bank" in command else "shop"].append(answer.code)
            printed = answer.out
    assert codes == {"bank": [WAITING, WAITING, WAITING, 0], "shop": [WAITING, WAITING, 0]}
    assert "'first' is finished: bank/runs/first" in printed
    assert "one-shot" in printed
    result = json.loads((credit / "bank" / "runs" / "first" / "result.json").read_text())
    assert result["metrics"]["auc"] > 0.6
    assert (result["rounds"], result["messages"]) == (3, 3)


def test_the_page_and_the_readme_say_the_same() -> None:
    readme = [command for block in shell_blocks("README.md") for command in block]
    page = [command for block in shell_blocks("docs/post.md") for command in block]
    assert sorted(readme) == sorted(page)


@pytest.fixture
def desks(vesica: Vesica, credit: Path) -> Path:
    """Two desks that trust each other, and the ids in common."""
    for name in ("bank", "shop"):
        assert vesica("post", "init", "--as", name, "--desk", name).code == 0
    assert vesica("post", "trust", "bank", "shop/shop.card").code == 0
    assert vesica("post", "trust", "shop", "bank/bank.card").code == 0
    tables = [Path(f"examples/credit/{name}.csv").read_text().split() for name in ("bank", "shop")]
    common = set.intersection(*({line.partition(",")[0] for line in table[1:]} for table in tables))
    Path("common.csv").write_text("\n".join(["customer_id", *sorted(common)]))
    return credit


def run(vesica: Vesica, name: str, *more: str) -> Answer:
    options = ("--desk", name, "--common", "common.csv", "--run", "first", *RUN, *more)
    return vesica("post", "run", "examples/credit/federation.toml", "one-shot", *options)


def test_it_says_what_is_missing_and_what_to_carry_where(vesica: Vesica, desks: Path) -> None:
    answer = run(vesica, "bank")
    assert answer.code == WAITING
    carry, second, waits = answer.out.splitlines()
    assert carry == "carry bank/outbox/shop/first.bank.shop.000001.post to 'shop'"
    assert waits == "waiting for first.shop.bank.000001.post ('agreement') from 'shop': put it into bank/inbox"
    Path("bank/inbox/notes.txt").write_text("buy milk")
    status = vesica("post", "status", "bank").out
    assert "run 'first': waits for first.shop.bank.000001.post" in status
    assert carry in status
    assert second in status
    assert "inbox: bank/inbox/notes.txt is no message" in status
    assert "bank/inbox/notes.txt is no message of this version" in run(vesica, "bank").out


def test_a_guest_reads_at_its_end_what_is_guaranteed(vesica: Vesica, desks: Path) -> None:
    options = ("--common", "common.csv", "--run", "first", "--set", "sigma_r=0.5", "--set", "guest_epochs=1")
    for _ in range(4):
        for name, other in (("bank", "shop"), ("shop", "bank")):
            answer = vesica("post", "run", "examples/credit/federation.toml", "fedonce", "--desk", name, *options)
            subprocess.run(f"cp {name}/outbox/{other}/* {other}/inbox/", shell=True, check=True)
        if answer.code == 0:
            break
    assert answer.out.splitlines()[-2] == "'first' is finished: shop/runs/first"
    said = "carries Gaussian noise of standard deviation 0.5, drawn from the operating system's entropy"
    assert said in answer.out.splitlines()[-1]


def test_a_tampered_file_is_named_in_one_sentence(vesica: Vesica, desks: Path) -> None:
    run(vesica, "bank")
    for path in Path("bank/outbox/shop").iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        Path("shop/inbox", path.name).write_bytes(data)
    answer = run(vesica, "shop")
    assert answer.code == 2
    assert answer.err.startswith(
        "vesica: shop/inbox/first.bank.shop.000001.post is of 'bank' and was changed on its way"
    )
    assert len(answer.err.splitlines()) == 1


def test_the_result_as_json_is_alone_on_standard_output(vesica: Vesica, desks: Path) -> None:
    for _ in range(4):
        answer = run(vesica, "bank", "--json", "-", "--report", "report.html", "--seed", "3")
        assert "--seed is for tests" in answer.err
        if answer.code == 0:
            break
        assert answer.out == ""
        subprocess.run("cp bank/outbox/shop/* shop/inbox/", shell=True, check=True)
        run(vesica, "shop", "--seed", "3")
        subprocess.run("cp shop/outbox/bank/* bank/inbox/", shell=True, check=True)
    assert json.loads(answer.out)["method"] == "one-shot"
    assert "one-shot" in Path("report.html").read_text()
    again = run(vesica, "shop", "--seed", "3")
    assert again.code == 0
    assert "'first' is finished: shop/runs/first; another run needs another --run" in again.out
    assert "carry shop/outbox/bank/first.shop.bank.000004.post to 'bank'" in again.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", "--as", "bank", "--desk", "bank"), "holds an identity already"),
        (("init", "--as", "../x", "--desk", "new"), "a party cannot be called '../x'"),
        (("trust", "bank", "nowhere.card"), "there is no card nowhere.card"),
        (("trust", "nowhere", "shop/shop.card"), "begin with `vesica post init"),
        (("status", "nowhere"), "begin with `vesica post init"),
        (("run", "nowhere.toml", "one-shot"), "there is no file nowhere.toml"),
        (("run", "examples/credit/federation.toml", "one-shut"), "one-shut"),
        (("run", "examples/credit/federation.toml", "pooled"), "needs all parties in one place"),
        (
            ("run", "examples/credit/federation.toml", "one-shot", "--as", "shop"),
            "the desk of 'bank' and not of 'shop'",
        ),
        (("run", "examples/credit/federation.toml", "one-shot", "--wire", "float8"), "there is no wire 'float8'"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], said: str, vesica: Vesica, desks: Path) -> None:
    more = ("--desk", "bank", "--common", "common.csv", "--run", "first") if arguments[0] == "run" else ()
    answer = vesica("post", *arguments, *more)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_guest_has_no_result_to_write(vesica: Vesica, desks: Path) -> None:
    answer = run(vesica, "shop", "--json", "-")
    assert answer.code == 2
    assert "'shop' is a guest and the result is for 'bank' alone" in answer.err


def test_a_simulation_sends_one_to_the_right_command(vesica: Vesica, credit: Path) -> None:
    answer = vesica("run", "one-shot", "--data", "credit", "--engine", "post")
    assert answer.code == 2
    assert "use `vesica post run`" in answer.err
