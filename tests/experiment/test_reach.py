"""How many bytes a rival takes to be as good as FedOnce."""

from __future__ import annotations

from typing import Any

import pytest

from vesica.experiment.reach import reaches
from vesica.experiment.recipes import Case, Recipe, reproduce
from vesica.experiment.tables import bytes_to_reach
from vesica.methods import FedOnce, SplitNN


def line(title: str, curve: list[list[float]], *, seed: int = 0, **more: Any) -> dict[str, Any]:
    config = {"overlap": {"keep": None}, "encoders": {"host": ["cnn", 16], "guest-1": ["cnn", 16]}, **more}
    return {
        "method": title.split(",")[0],
        "title": title,
        "data": "mnist",
        "seed": seed,
        "wire": "float32",
        "rows": {"aligned": 100},
        "config": config,
        "config_hash": "0",
        "curve": curve,
    }


ONCE = line("fedonce", [[1000, 0.9]])


def test_the_first_epoch_that_is_as_good_counts_and_an_equal_one_is() -> None:
    (reach,) = reaches([ONCE, line("split-nn", [[2000, 0.5], [4000, 0.9], [6000, 0.95]])])
    assert (reach.data, reach.host, reach.value, reach.sent, reach.taken) == ("mnist", 1, 0.9, 1000, 4000)
    assert reach.ratio == 4.0


def test_a_rival_that_is_never_as_good_says_so() -> None:
    lines = [ONCE, line("split-nn", [[2000, 0.5], [4000, 0.89]])]
    assert [reach.ratio for reach in reaches(lines)] == [None]
    assert bytes_to_reach(lines)[1] == [["mnist", "1", "0.9000", "0.001", "not reached"]]


def test_an_error_that_falls_is_one_that_gets_better() -> None:
    lines = [line("fedonce", [[1000, -0.2]]), line("split-nn", [[2000, -0.3], [5000, -0.1]])]
    assert [reach.ratio for reach in reaches(lines)] == [5.0]
    assert bytes_to_reach(lines)[1] == [["mnist", "1", "0.2000", "0.001", "5.0 times"]]


@pytest.mark.parametrize(
    "other",
    [
        line("split-nn", [[2000, 1.0]], seed=1),
        line("split-nn", [[2000, 1.0]], cut={"host": 2}),
        line("split-nn", [[2000, 1.0]], encoders={"host": ["cnn", 8], "guest-1": ["cnn", 8]}),
        line("split-nn, at most 2,000 bytes", [[2000, 1.0]]),
        line("split-nn", []),
    ],
)
def test_only_whole_runs_of_the_same_federation_and_seed_are_compared(other: dict[str, Any]) -> None:
    assert not list(reaches([ONCE, other]))


def test_more_rounds_are_not_counted_again_beside_the_one_message_they_began_with() -> None:
    more = line("fedonce, more rounds", [[1000, 0.9], [3000, 0.95]])
    assert len(list(reaches([ONCE, more, line("split-nn", [[2000, 1.0]])]))) == 1


def test_each_host_has_a_row_over_its_seeds() -> None:
    lines = [
        line(title, [[size, value]], seed=seed, cut={"host": host})
        for host in (2, 3)
        for seed in (0, 1)
        for title, size, value in (
            ("fedonce", 1000, 0.9),
            ("split-nn", 2000 * (1 + seed * host), 0.8 + 0.1 * (host == 2)),
        )
    ]
    heads, rows = bytes_to_reach(lines)
    assert heads[1] == "host"
    assert [(row[1], row[4]) for row in rows] == [("2", "4.0 ± 2.8 times"), ("3", "not reached")]


def test_runs_that_reached_and_runs_that_did_not_are_counted() -> None:
    lines = [line("fedonce", [[1000, 0.9]], seed=seed) for seed in range(3)]
    lines += [line("split-nn", [[3000, value]], seed=seed) for seed, value in enumerate((0.95, 0.5, 0.95))]
    assert bytes_to_reach(lines)[1][0][4] == "3.0 times, not reached in 1 of 3 runs"
    lines[0]["config_hash"] = "1"
    assert [row[4] for row in bytes_to_reach(lines)[1]] == ["3.0 times", "3.0 times, not reached in 1 of 2 runs"]


def test_lines_of_a_recipe_have_what_it_needs() -> None:
    cases = [
        Case(method, "credit", overlap=60, dim=4)
        for method in (FedOnce(guest_epochs=1, host_epochs=2), SplitNN(epochs=2, batch_size=32))
    ]
    lines = [done.line for done in reproduce(Recipe("a test", lambda seeds: cases), "fig6")]
    once, split = (line["curve"] for line in lines)
    assert [size for size, _ in once] == [lines[0]["bytes"]["wire"]]
    assert 0 < split[0][0] < split[1][0] <= lines[1]["bytes"]["wire"]
    (reach,) = reaches(lines)
    assert reach.sent == lines[0]["bytes"]["wire"] > 4 * 60 * 4
