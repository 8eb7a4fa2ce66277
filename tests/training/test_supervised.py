"""One party's training loop."""

import torch
from torch import nn

from vesica.metrics import Task
from vesica.training.supervised import Stopping, batches, train

TASK = Task("classification", "accuracy", ("no", "yes"))


def problem(rows: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def fit(model: nn.Module, **changes) -> None:
    x, labels = problem()
    settings = {"epochs": 30, "patience": 5, "batch_size": 20, "learning_rate": 0.05, "weight_decay": 0.0} | changes
    train(
        {"model": model},
        lambda rows: model(x[rows]),
        labels,
        rows=torch.arange(150),
        validation=torch.arange(150, 200),
        task=TASK,
        **settings,
    )


def test_a_separable_problem_is_learned() -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    fit(model)
    x, labels = problem()
    assert (model(x).argmax(1) == labels).float().mean() > 0.95


def test_the_best_epoch_is_kept_not_the_last() -> None:
    model = nn.Linear(1, 1)
    stopping = Stopping({"model": model}, patience=2)
    for weight, value in ((1.0, 0.7), (2.0, 0.9), (3.0, 0.8), (4.0, 0.85)):
        nn.init.constant_(model.weight, weight)
        stopping.judge((value, 0.0))
    assert stopping.stop
    stopping.restore_best()
    assert model.weight.item() == 2.0


def test_patience_counts_epochs_since_the_best() -> None:
    stopping = Stopping({}, patience=3)
    verdicts = []
    for value in (0.5, 0.6, 0.6, 0.4, 0.7, 0.1, 0.1, 0.1):
        stopping.judge((value, 0.0))
        verdicts.append(stopping.stop)
    assert verdicts == [False, False, False, False, False, False, False, True]


def test_without_patience_nothing_stops_and_the_last_epoch_is_kept() -> None:
    model = nn.Linear(1, 1)
    stopping = Stopping({"model": model}, patience=0)
    for weight, value in ((1.0, 0.9), (2.0, 0.5), (3.0, 0.4)):
        nn.init.constant_(model.weight, weight)
        assert stopping.judge((value, 0.0))
        assert not stopping.stop
    nn.init.constant_(model.weight, 4.0)
    stopping.restore_best()
    assert model.weight.item() == 3.0


def test_stopping_comes_back_from_its_state() -> None:
    model = nn.Linear(1, 1)
    stopping = Stopping({"model": model}, patience=2)
    stopping.judge((0.9, 0.0))
    stopping.judge((0.8, 0.0))
    again = Stopping({"model": nn.Linear(1, 1)}, patience=2)
    again.load_state_dict(stopping.state_dict())
    assert not again.judge((0.85, 0.0))
    assert again.stop


def test_batches_are_every_position_once_in_random_order() -> None:
    one, two = (list(batches(10, 4, generator=torch.Generator().manual_seed(seed))) for seed in (0, 1))
    assert [len(batch) for batch in one] == [4, 4, 2]
    assert sorted(torch.cat(one).tolist()) == list(range(10))
    assert torch.cat(one).tolist() != torch.cat(two).tolist()
