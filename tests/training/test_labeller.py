import pytest
import torch
from torch import nn

from vesica.training.labeller import labelling

ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_labels_come_from_the_statistics_of_the_pass_before() -> None:
    model = network().train()
    learned, others = ROWS[:25], 3 * ROWS[25:] + 1
    with labelling(model) as labeller:
        model(7 * ROWS)  # an earlier batch is forgotten
        model(learned)
        labels = labeller(others)
    first, norm, last = model
    var, mean = torch.var_mean(first(learned), dim=0)
    scaled = (first(others) - mean) / (var + norm.eps).sqrt()
    torch.testing.assert_close(labels, last(scaled))


def test_a_labeller_has_the_model_s_weights_as_they_change_and_leaves_its_statistics_alone() -> None:
    model = network().train()
    with labelling(model) as labeller:
        model(ROWS)
        before = labeller(ROWS)
        kept = {name: value.clone() for name, value in model.state_dict().items()}
        labeller(5 * ROWS)
        assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
        model.load_state_dict({name: 2 * value for name, value in kept.items()})
        assert not torch.allclose(before, labeller(ROWS))


def test_what_is_dropped_out_in_learning_is_dropped_out_in_labelling() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()
    with labelling(model) as labeller:
        assert (labeller(ROWS) == 0).float().mean() > 0.3


def test_a_layer_keeps_its_own_momentum_afterwards() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=0.2), nn.BatchNorm1d(3, momentum=None))
    with labelling(model):
        assert [norm.momentum for norm in model] == [1.0, 1.0]
    assert [norm.momentum for norm in model] == [0.2, None]


def test_a_failure_leaves_a_layer_its_own_momentum_too() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="out of luck"), labelling(model):
        raise ValueError("out of luck")
    assert model[0].momentum == 0.1


def test_a_model_without_batch_norm_labels_by_itself() -> None:
    model = nn.Linear(3, 2)
    with labelling(model) as labeller:
        assert labeller is model
