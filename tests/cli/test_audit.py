"""`vesica audit` as a person calls it, in the order of docs/audit.md."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federations import quick, small_federation
from vesica.experiment import fit

DOCUMENT = Path(__file__).parents[2] / "docs" / "audit.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit only reads it."""
    folder = tmp_path_factory.mktemp("audited") / "run"
    fit(quick("one-shot"), small_federation(), out=folder, keep_messages=True)
    return folder


def test_the_commands_of_the_document_run(
    vesica: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (block,) = re.findall(r"```shell\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "vesica"
        answer = vesica(*arguments)
        assert answer.code == 0, answer.err
        if arguments[0] == "audit":
            assert "k-means on the gradients" in answer.out
    assert "guest-1" in (tmp_path / "runs" / "audit.html").read_text()
    assert "label_epsilon" in (tmp_path / "runs" / "sweep.html").read_text()


def test_it_says_what_is_proven_and_what_measured(vesica: Callable[..., Any], run: Path) -> None:
    answer = vesica("audit", run, "--attack", "gradients")
    assert answer.code == 0, answer.err
    proven, measured, left = (answer.out.index(words) for words in ("Proven:", "Measured", "Not tried:"))
    assert proven < answer.out.index("no mechanism of this run carries a guarantee") < measured < left
    assert "'shop1' guesses the labels of 40 aligned rows of 'bank' by k-means on the gradients" in answer.out
    assert "Membership inference was not asked for." in answer.out
    assert "shadow" not in answer.out
    answer = vesica("audit", run, "--attack", "membership")
    assert "Membership inference with shadow federations was not asked for (--shadows)." in " ".join(answer.out.split())


def test_the_json_has_all_of_it(vesica: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    answer = vesica("audit", run, "--attack", "gradients", "--json", "-")
    audited = json.loads(answer.out)
    assert list(audited) == ["run", "parties", "received", "findings", "guarantees", "statements", "not_tried"]
    worst = audited["findings"][0]
    assert (worst["value"], worst["attacker"], worst["owner"]) == (1.0, "shop1", "bank")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--attack", "gradient"], "there is no attack 'gradient'; did you mean 'gradients'?"),
        (["--completion", "deep"], "model completion has no style 'deep'"),
        (["--out", "x"], "--out goes with --sweep"),
        (["--shadows", "1"], "--shadows takes 2 federations or more"),
        (["--sweep", "label_epsilon=1", "--out", "x", "--shadows", "2"], "and no --sweep"),
        (["--sweep", "label_epsilon=1", "--out", "x", "--completion", "deep"], "model completion has no style 'deep'"),
        (["--sweep", "label_epsilon=1"], "write --sweep FIELD=VALUE,VALUE and give its runs a folder with --out"),
        (["--sweep", "label_epsilon", "--out", "x"], "write --sweep FIELD=VALUE,VALUE"),
        (["--sweep", "label_epsilon=,", "--out", "x"], "there is no value to give label_epsilon"),
        (["--sweep", "label_epsilon=1", "--out", "x"], "was not made from a data set or a federation.toml"),
        (["--attack", "membership", "--shadows", "3"], "was not made from a data set or a federation.toml"),
    ],
)
def test_bad_input_is_one_sentence(
    options: list[str], sentence: str, vesica: Callable[..., Any], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    answer = vesica("audit", run, *options)
    assert answer.code == 2
    assert sentence in " ".join(answer.err.split())
    assert "Traceback" not in answer.err


def test_a_folder_without_messages_is_named(vesica: Callable[..., Any], tmp_path: Path) -> None:
    fit(quick("one-shot"), small_federation(), out=tmp_path / "run")
    answer = vesica("audit", tmp_path / "run")
    assert answer.code == 2
    assert "run it again with --keep-messages" in " ".join(answer.err.split())
    assert vesica("audit", tmp_path / "nowhere").code == 2
