"""The recipes of the audit, and the tables of what they found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vesica.datasets.scenario import SCENARIOS
from vesica.errors import InputError
from vesica.experiment.audit import ATTACKS
from vesica.experiment.recipes import Case, Recipe, find_recipe, reproduce
from vesica.experiment.tables import audited, refresh
from vesica.methods import FedHSSL, OneShot, check_fields

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize(
    "table", ["disclosure", "disclosure-cifar", "table6", "figure4", "noise", "auxiliary", "membership"]
)
def test_every_case_can_be_made_and_told_from_the_others(table: str) -> None:
    made = list(find_recipe("audit", table, experiments=EXPERIMENTS).cases(2))
    assert len({case.title for case in made}) == len({case.folder for case in made}) == len(made)
    for case in made:
        check_fields(case.method)
        assert case.data in SCENARIOS
        assert set(case.audit) <= set(ATTACKS)
        assert case.audit


def test_table_6_attacks_what_pre_training_left() -> None:
    made = list(find_recipe("audit", "table6", experiments=EXPERIMENTS).cases(1))
    methods = [case.method for case in made if isinstance(case.method, FedHSSL)]
    assert len(methods) == len(made)
    assert {(m.iso_representations, m.finetune_epochs) for m in methods} == {
        (noise, epochs) for noise in (0.0, 0.1, 0.4) for epochs in (0, 30, 100)
    }


def test_a_case_with_an_audit_has_its_findings_in_its_line(tmp_path: Path) -> None:
    cases = [
        Case(OneShot(guest_steps=2, host_epochs=1, label_epsilon=epsilon), "credit", overlap=60, audit=("gradients",))
        for epsilon in (None, 0.5)
    ]
    lines = [run.line for run in reproduce(Recipe("a test", lambda seeds: cases), "disclosure", out=tmp_path / "out")]
    assert all(line["audit"] for line in lines)
    again = [run.line for run in reproduce(Recipe("a test", lambda seeds: cases), "disclosure", out=tmp_path / "out")]
    assert again == lines
    heads, rows = audited(lines)
    clear, private = (dict(zip(heads, row, strict=True)) for row in rows)
    assert clear["attacker"] == private["attacker"] == "guest-1"
    assert clear["the direction of the gradients, AUC"].startswith("1.000 (0.5")
    assert (clear["epsilon"], private["epsilon"]) == ("–", "0.50")
    assert float(private["the direction of the gradients, AUC"].split()[0]) < 0.95
    (tmp_path / "found.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "README.md").write_text("<!-- audit: found.jsonl -->\nold\n<!-- end of table -->\n")
    assert "| 1.000 (0.5" in refresh(tmp_path / "README.md")


def finding(
    attack: str, value: float, *, secret: str = "the labels of 9 rows", owner: str = "bank"
) -> dict[str, object]:
    words = {"attacker": "shop", "owner": owner, "attack": attack, "measure": "AUC", "secret": secret}
    return {**words, "value": value, "nothing": 0.5, "at_home": None, "bound": None}


def test_two_findings_of_a_run_are_two_columns_what_is_known_a_row_and_two_seeds_are_one(tmp_path: Path) -> None:
    once, often = "the columns of {} rows, shown once,", "the columns of {} rows, shown 8 times,"
    lines = [
        {
            "method": "split-nn",
            "data": "credit",
            "seed": seed,
            "rows": {"aligned": 9, "labelled": 9},
            "metrics": {"auc": 0.7},
            "wire": "float32",
            "config": {"method": {}, "metric": "auc"},
            "config_hash": "0",
            "audit": [
                finding("an inverse (400 rows known)", 0.2 + 0.2 * seed, secret=once.format(600)),
                finding("an inverse (400 rows known)", 0.6, secret=often.format(600)),
                finding("an inverse (80 rows known)", 0.1, secret=once.format(920)),
                finding("a guess", 0.9),
            ],
        }
        for seed in (0, 1)
    ]
    heads, rows = audited(lines, attack="inverse")
    inverses = [f"an inverse, AUC (the columns, shown {times})" for times in ("8 times", "once")]
    assert heads[-4:] == ["attacker", "known", *inverses]
    assert [row[-3:] for row in rows] == [
        ["80", "–", "0.100 (0.500)"],
        ["400", "0.600 (0.500)", "0.300 ± 0.141 (0.500)"],
    ]
    (tmp_path / "found.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "README.md").write_text("<!-- audit: found.jsonl of: a guess -->\n<!-- end of table -->\n")
    assert "| attacker | a guess, AUC |" in refresh(tmp_path / "README.md")


def test_two_owners_are_two_columns_and_no_attack_of_a_name_is_refused() -> None:
    run = {
        "method": "split-nn",
        "data": "credit",
        "seed": 0,
        "rows": {"aligned": 9, "labelled": 9},
        "metrics": {"auc": 0.7},
        "wire": "float32",
        "config": {"method": {}, "metric": "auc"},
        "config_hash": "0",
        "audit": [finding("an inverse", 0.9, owner="one"), finding("an inverse", 0.1, owner="two")],
    }
    heads, (row,) = audited([run])
    cells = dict(zip(heads, row, strict=True))
    assert (cells["an inverse, AUC (one)"], cells["an inverse, AUC (two)"]) == ("0.900 (0.500)", "0.100 (0.500)")
    assert cells["seeds"] == "1"
    with pytest.raises(InputError, match="no attack of these audits has 'a guess' in its name"):
        audited([run], attack="a guess")
