"""Trees: in one place, at the host alone, and a process a party."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import xgboost
from sklearn.metrics import roc_auc_score

from federations import photo_federation, small_federation
from vesica.data import Federation, split_rows
from vesica.datasets.scenario import make_federation
from vesica.errors import InputError, PartyError
from vesica.experiment import Result, fit
from vesica.experiment.seat import Seat
from vesica.methods import LocalTrees, Trees, VerticalTrees
from vesica.nn.models import Bins, TreesModel
from vesica.nn.models.trees import thresholds_of
from vesica.protocol import Budget, tree_federation
from vesica.training.boosting import Boosting, Share, boost_leafwise

LONG = VerticalTrees(rounds=2000, early_stopping_rounds=0, timeout=60)


def plain_auc(federation: Federation, *, rounds: int, early_stopping_rounds: int, columns_of: Sequence[str]) -> float:
    """XGBoost by itself, on the labelled aligned rows of these parties' prepared columns in one place."""
    split = split_rows(federation)
    host = split.parties[federation.host.name]
    parts = {}
    for party in federation.parties:
        seat = Seat.take(party, split.parties[party.name], device=torch.device("cpu"))
        if party.name in columns_of:
            parts[party.name] = seat.inputs.numpy()
    labelled = {name: split.parties[name].aligned[split.labelled] for name in parts}
    label = split.label[host.aligned[split.labelled]]
    validates = np.isin(split.labelled, split.validation)
    matrix = np.hstack([part[labelled[name]] for name, part in parts.items()])
    booster = xgboost.train(
        {"objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1},
        xgboost.DMatrix(matrix[~validates], label[~validates]),
        rounds,
        evals=[(xgboost.DMatrix(matrix[validates], label[validates]), "validation")],
        early_stopping_rounds=early_stopping_rounds,
        verbose_eval=False,
    )
    test = np.hstack([part[split.parties[name].test] for name, part in parts.items()])
    kept = (0, booster.best_iteration + 1)
    return float(roc_auc_score(split.label[host.test], booster.predict(xgboost.DMatrix(test), iteration_range=kept)))


@pytest.mark.parametrize("data", ["credit", "credit-two-guests"])
def test_vertical_trees_are_xgboost_on_all_columns_in_one_place(data: str) -> None:
    """The second has a host with labels only, and two guests."""
    federation = make_federation(data, overlap=400)
    names = [party.name for party in federation.parties if party.has_features]
    plain = plain_auc(federation, rounds=12, early_stopping_rounds=5, columns_of=names)
    for method in (Trees, VerticalTrees):
        result = fit(method(rounds=12, early_stopping_rounds=5), federation)
        assert result.metrics["auc"] == pytest.approx(plain, abs=1e-6)


def test_local_trees_are_xgboost_on_the_hosts_columns() -> None:
    federation = make_federation("credit", overlap=400)
    plain = plain_auc(federation, rounds=12, early_stopping_rounds=5, columns_of=[federation.host.name])
    result = fit(LocalTrees(rounds=12, early_stopping_rounds=5), federation)
    assert result.metrics["auc"] == pytest.approx(plain, abs=1e-6)
    assert result.ledger.messages == []


def test_trees_pool_every_guests_columns_in_one_round() -> None:
    result = fit(Trees(rounds=2), small_federation(guests=3))
    script = [(entry.round, entry.sender, entry.receiver, entry.kind) for entry in result.ledger.messages]
    assert script == [(1, f"shop{i}", "bank", "columns") for i in (1, 2, 3)]
    assert result.ledger.payload == 3 * 40 * 3 * 4


class PretendedLightGBM:
    """Stands in for the library where it is not installed, and takes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def Dataset(self, columns: np.ndarray, labels: np.ndarray, reference: Any = None) -> tuple[int, int]:  # noqa: N802
        return len(columns), len(labels)

    def early_stopping(self, rounds: int, *, verbose: bool) -> int:
        return rounds

    def train(self, parameters: Any, train: Any, rounds: int, *, valid_sets: Any, callbacks: Any) -> Any:
        self.asked = {**parameters, "rows": [train, *valid_sets], "rounds": rounds, "patience": callbacks}
        text = "the trees"
        return SimpleNamespace(best_iteration=3, model_to_string=lambda num_iteration: f"{text} {num_iteration}")


@pytest.mark.parametrize(("patience", "kept"), [(5, "the trees 3"), (0, "the trees -1")])
def test_lightgbm_is_asked_for_the_same_settings(patience: int, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = PretendedLightGBM()
    monkeypatch.setitem(sys.modules, "lightgbm", pretended)
    share = Share(np.zeros((10, 2)), np.arange(10) % 3, np.arange(8), np.arange(8, 10))
    settings = {"eta": 0.2, "gamma": 0.5, "max_depth": 4, "subsample": 0.9}
    boosting = Boosting.of(3, parameters=settings, rounds=7, early_stopping_rounds=patience, seed=1)
    assert boost_leafwise(share, boosting).decode() == kept
    expected = {"objective": "multiclass", "num_class": 3, "eta": 0.2, "min_gain_to_split": 0.5, "max_depth": 4}
    expected |= {"subsample": 0.9, "bagging_freq": 1, "seed": 1, "rounds": 7, "rows": [(8, 8), (2, 2)]}
    assert expected.items() <= pretended.asked.items()
    assert pretended.asked["patience"] == ([patience] if patience else [])
    assert not {"gamma", "eval_metric", "tree_method"} & set(pretended.asked)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_lightgbm_learns_from_all_columns_in_one_place(task: Any, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'vesica[trees]'")
    federation = small_federation(task=task, rows=500, keep=300)
    method = Trees(library="lightgbm", rounds=30, eta=0.1, min_child_weight=1e-3, reg_lambda=0.0)
    result, again = (fit(method, federation, out=tmp_path / name) for name in ("one", "two"))
    assert result.metrics == again.metrics
    assert [entry.kind for entry in result.ledger.messages] == ["columns"]
    if task == "regression":
        assert (result.metrics["rmse"] or 9) < 0.9 * float(np.std(federation.label))
    else:
        assert (result.metrics["auc"] or 0) > 0.75
    other = TreesModel.from_spec(head_of(result).spec())
    other.load_state_dict(head_of(result).state_dict())
    parts = [torch.randn(9, 3), torch.randn(9, 3)]
    assert torch.equal(other(parts), head_of(result)(parts))


def test_without_lightgbm_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InputError, match=r"library=lightgbm needs LightGBM.*pip install 'vesica\[trees\]'"):
        fit(Trees(library="lightgbm"), small_federation())


def test_a_library_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="field 'library' of method 'trees' is 'catboost'"):
        fit(Trees(library="catboost"), small_federation())  # type: ignore[arg-type]


def test_a_host_with_labels_only_has_no_local_trees() -> None:
    with pytest.raises(InputError, match="has labels only"):
        fit(LocalTrees(), small_federation(host_features=False))


def test_trees_learn_a_regression() -> None:
    federation = small_federation(task="regression", rows=500, keep=300)
    together, apart = (fit(kind(rounds=6), federation).metrics["rmse"] for kind in (Trees, VerticalTrees))
    assert apart == pytest.approx(together, abs=1e-6)
    assert (apart or 9) < 0.8 * float(np.std(federation.label))


def test_vertical_trees_learn_from_images() -> None:
    together, apart = (fit(kind(rounds=3), photo_federation()) for kind in (Trees, VerticalTrees))
    assert together.metrics == apart.metrics
    assert (apart.metrics["accuracy"] or 0) > 0.9


@pytest.mark.parametrize("method", [Trees(rounds=2), VerticalTrees(rounds=2)])
def test_no_wire_rounds_columns_or_bins(method: Any) -> None:
    full, narrow = (fit(method, small_federation(), wire=wire) for wire in ("float32", "int8"))
    assert narrow.metrics == full.metrics
    assert narrow.scoring.payload == full.scoring.payload == 30 * 3 * 4


def head_of(result: Result) -> TreesModel:
    head = next(iter(result.models.values())).head
    assert isinstance(head, TreesModel)
    return head


def trees_in(result: Result) -> int:
    booster = xgboost.Booster()
    booster.load_model(bytearray(head_of(result).trees))
    return int(booster.num_boosted_rounds())


@pytest.mark.parametrize("kind", [Trees, LocalTrees])
def test_training_stops_where_the_validation_rows_say(kind: Any) -> None:
    federation = small_federation(rows=300, keep=200)
    stopped = fit(kind(rounds=300, early_stopping_rounds=5), federation)
    straight = fit(kind(rounds=300, early_stopping_rounds=0), federation)
    assert trees_in(stopped) < 100 < trees_in(straight) == 300


@pytest.fixture(scope="module")
def grown() -> Result:
    return fit(VerticalTrees(rounds=3), small_federation(guests=2))


def test_every_call_of_xgboost_is_a_round_up_and_a_round_down(grown: Result) -> None:
    messages = grown.ledger.messages
    assert grown.ledger.rounds * 2 == len(messages) > 100  # two guests
    script = [(entry.sender, entry.receiver, entry.kind) for entry in messages[:4]]
    assert script == [
        ("shop1", "bank", "parts"),
        ("shop2", "bank", "parts"),
        ("bank", "shop1", "totals"),
        ("bank", "shop2", "totals"),
    ]
    assert all(entry.wire == entry.payload + 5 for entry in messages)
    # A gradient and a hessian a row and round go down, in single precision.
    assert grown.ledger.down > 2 * 3 * 36 * 2 * 4


def test_the_result_says_what_crossed_and_what_is_not_protected(grown: Result) -> None:
    crossed, gradients, thresholds = grown.statements
    assert f"({grown.ledger.wire:,} bytes)" in crossed
    assert "Nothing is encrypted" in gradients
    assert "thresholds" in thresholds


def test_what_is_kept_of_a_guest_is_its_own(grown: Result) -> None:
    """The host's trees read numbers of bins, whose thresholds are with the guests; these have no tree."""
    for name in ("shop1", "shop2"):
        model = grown.models[name]
        assert model.head is None
        assert isinstance(model.encoder, Bins)
        assert sum(len(some) for some in model.encoder.thresholds) > 0
    theirs = torch.cat(thresholds_of(head_of(grown).trees, range(3, 9)))
    assert torch.equal(theirs % 1, torch.full_like(theirs, 0.5))
    assert {entry.kind for entry in grown.scoring.messages} == {"request", "bins"}


def gone(pid: int) -> bool:
    """Nothing of it runs, though nobody may have asked yet how it ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in ("Z", "X")


class Watched:
    """Stands in for `watch`, and does something to the processes in the middle of training."""

    def __init__(
        self, harm: Callable[[list[tree_federation.TreeProcess]], None], *, timeout: float | None = None
    ) -> None:
        self.harm, self.timeout, self.watch = harm, timeout, tree_federation.watch
        self.processes: list[tree_federation.TreeProcess] = []
        self.ports: list[int] = []

    def __call__(self, processes: Any, gates: Any, *, host: Any) -> None:
        self.processes, self.ports = list(processes), [gate.port for gate in gates]
        self.ports.append(int(processes[0].read()))
        assert not self.closed()
        while sum(gate.total for gate in gates) < 50_000:
            time.sleep(0.01)
        self.harm(self.processes)
        host.timeout = self.timeout or host.timeout
        self.watch(processes, gates, host=host)

    def closed(self) -> bool:
        for port in self.ports:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return False
        return True


@pytest.mark.parametrize(("place", "who"), [(0, "the server of the trees"), (1, "'bank'"), (3, "'shop2'")])
def test_a_killed_process_ends_the_run_and_leaves_no_process_and_no_port(
    place: int, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(lambda processes: processes[place].process.kill())
    monkeypatch.setattr(tree_federation, "watch", watched)
    with pytest.raises(PartyError, match=f"{who} was killed by signal 9 before training was over"):
        fit(LONG, small_federation(guests=2))
    assert [gone(one.process.pid) for one in watched.processes] == [True] * 4
    assert watched.closed()


def test_a_process_that_stands_still_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(lambda processes: processes[2].process.send_signal(signal.SIGSTOP), timeout=1)
    monkeypatch.setattr(tree_federation, "watch", watched)
    with pytest.raises(PartyError, match="no byte crossed between the tree processes for 1 s"):
        fit(LONG, small_federation())
    assert [gone(one.process.pid) for one in watched.processes] == [True] * 3
    assert watched.closed()


def test_a_run_that_failed_goes_on_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = VerticalTrees(rounds=3)
    with monkeypatch.context() as patched:
        patched.setattr(tree_federation, "settle", None)
        with pytest.raises(PartyError):
            fit(method, small_federation(), out=tmp_path / "run")
    again, whole = fit(method, small_federation(), out=tmp_path / "run"), fit(method, small_federation())
    assert again.metrics == whole.metrics
    assert again.ledger.entries == whole.ledger.entries
    bank, shop = ((tmp_path / "run" / name / "ledger.jsonl").read_text().splitlines() for name in ("bank", "shop1"))
    assert len([line for line in shop if '"parts"' in line]) > 50
    assert sorted(bank) == sorted(shop)  # both ends of the one line count alike


def test_the_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from federations import small_federation
from vesica.experiment import fit
from vesica.methods import VerticalTrees
from vesica.protocol import tree_federation
def watch(processes, gates, *, host):
    print(*(one.process.pid for one in processes), flush=True)
    processes[1].process.wait()
tree_federation.watch = watch
fit(VerticalTrees(rounds=2000, early_stopping_rounds=0), small_federation())
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 3
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 60
    while not all(gone(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert all(gone(pid) for pid in children)


@pytest.mark.parametrize("budget", [Budget(rounds=10), Budget(bytes=10**9)])
def test_a_budget_that_could_not_be_kept_is_refused(budget: Budget) -> None:
    with pytest.raises(InputError, match="cannot be held to --max-rounds or --max-bytes"):
        fit(VerticalTrees(rounds=3), small_federation(), budget=budget)


def of_every_length(method: VerticalTrees, federation: Federation) -> list[Result]:
    """Runs with one round of boosting, with two, and so on."""
    return [fit(replace(method, rounds=rounds), federation) for rounds in range(1, method.rounds + 1)]


@pytest.mark.parametrize("early_stopping_rounds", [0, 20])
def test_a_run_stopped_at_bytes_is_the_longest_one_that_fits_into_them(early_stopping_rounds: int) -> None:
    federation = small_federation(rows=300, keep=200, guests=2)
    method = VerticalTrees(rounds=4, early_stopping_rounds=early_stopping_rounds)
    runs = of_every_length(method, federation)
    sizes = [run.ledger.wire for run in runs]
    assert sizes == sorted(set(sizes))
    for limit, rounds in ((sizes[1], 2), (sizes[2] - 1, 2), (sizes[2], 3)):
        stopped, whole = fit(method, federation, stop_at_bytes=limit), runs[rounds - 1]
        assert stopped.ledger.wire <= limit
        assert stopped.ledger.messages == whole.ledger.messages
        assert (stopped.metrics, trees_in(stopped)) == (whole.metrics, trees_in(whole))
        assert f"stopped after {rounds} rounds of boosting" in stopped.statements[-1]
        assert f"would have come to {sizes[rounds]:,}." in stopped.statements[-1]
        assert f"({stopped.ledger.wire:,} bytes)" in stopped.statements[0]
        assert stopped.title == f"vertical-trees, at most {limit:,} bytes"


def test_the_best_of_the_trees_that_fit_is_kept_though_a_dropped_one_was_better() -> None:
    """On these rows every tree is better than the one before it, on validation rows too."""
    federation = small_federation(rows=300, keep=200)
    method = VerticalTrees(rounds=3, eta=0.05)
    *_, whole = of_every_length(method, federation)
    assert trees_in(whole) == 3
    assert trees_in(fit(method, federation, stop_at_bytes=whole.ledger.wire - 1)) == 2


def test_a_number_of_bytes_that_is_never_reached_changes_nothing(grown: Result) -> None:
    limited = fit(VerticalTrees(rounds=3), small_federation(guests=2), stop_at_bytes=10**9)
    assert limited.ledger.messages == grown.ledger.messages
    assert (limited.metrics, len(limited.statements)) == (grown.metrics, 3)
    assert head_of(limited).trees == head_of(grown).trees


def test_where_not_even_one_tree_fits_the_run_is_refused() -> None:
    one = fit(VerticalTrees(rounds=1), small_federation()).ledger.wire
    assert fit(VerticalTrees(), small_federation(), stop_at_bytes=one).ledger.wire == one
    sentence = rf"not even one tree fits into --stop-at-bytes {one - 1:,}: .* would come to {one:,}; raise it"
    with pytest.raises(InputError, match=sentence):
        fit(VerticalTrees(), small_federation(), stop_at_bytes=one - 1)


def test_an_xgboost_without_federated_training_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgboost, "build_info", lambda: {"USE_FEDERATED": False})
    with pytest.raises(InputError, match="built without federated training"):
        fit(VerticalTrees(rounds=3), small_federation())


@pytest.mark.parametrize("version", ["3.4.0", "3.10.1", "4.0.0-dev"])
def test_an_xgboost_that_cannot_split_columns_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(xgboost, "__version__", version)
    monkeypatch.setattr(xgboost, "build_info", lambda: {"USE_FEDERATED": False})  # as its packages are built
    sentence = rf"XGBoost {version} is installed, .* pip install 'xgboost>=3\.2,<3\.4'"
    with pytest.raises(InputError, match=sentence):
        fit(VerticalTrees(rounds=3), small_federation())


def test_nobody_can_ask_for_bins_as_an_encoder() -> None:
    federation = small_federation()
    guest = replace(federation.guests[0], encoder="bins")
    with pytest.raises(InputError, match="encoder 'bins' is made by vertical-trees"):
        fit(Trees(rounds=1), replace(federation, guests=(guest,)))


@pytest.mark.parametrize("subsample", [0.0, 1.5])
def test_a_part_of_the_rows_that_cannot_be_is_refused(subsample: float) -> None:
    with pytest.raises(InputError, match="subsample is"):
        fit(Trees(subsample=subsample), small_federation())
