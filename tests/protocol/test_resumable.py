"""States go to disk and come back as they were."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conversations import Talk
from vesica.errors import RunFolderError
from vesica.protocol.resumable import Past, Resumable, load, pack, recall, save_atomically, unpack

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
states = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers() | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(states)
def test_a_state_comes_back_with_the_types_of_its_keys(state: object) -> None:
    tensors: dict[str, torch.Tensor] = {}
    assert unpack(pack(state, tensors), tensors) == state


def test_an_optimisers_state_comes_back(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    save_atomically(tmp_path / "state.safetensors", {"optimiser": optimiser.state_dict()})
    again = torch.optim.Adam(torch.nn.Linear(3, 2).parameters())
    again.load_state_dict(load(tmp_path / "state.safetensors")["optimiser"])
    for name in ("step", "exp_avg", "exp_avg_sq"):
        assert torch.equal(again.state_dict()["state"][0][name], optimiser.state_dict()["state"][0][name])
    assert again.state_dict()["param_groups"][0]["betas"] == [0.9, 0.999]


def test_tensors_that_share_memory_are_saved(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    save_atomically(tmp_path / "s.safetensors", {"whole": whole, "part": whole[2:], "turned": whole.view(2, 3).T})
    state = load(tmp_path / "s.safetensors")
    assert state["part"].tolist() == [2.0, 3.0, 4.0, 5.0]
    assert torch.equal(state["turned"], whole.view(2, 3).T)


def test_a_torn_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    save_atomically(path, {"x": torch.zeros(100)})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(RunFolderError, match=r"is torn .* start again in a new folder"):
        load(path)


def test_what_the_checkpoints_say_is_the_farthest_of_all(tmp_path: Path) -> None:
    links = [{"shop1": [3, 1]}, {"shop1": [2, 5], "shop2": [1, 1]}]
    save_atomically(tmp_path / "step-one.safetensors", {"links": links[0], "seconds": 7.5})
    save_atomically(tmp_path / "step-two.safetensors", {"links": links[1], "seconds": 2.0})
    assert recall(tmp_path) == Past({"shop1": (3, 5), "shop2": (1, 1)}, 7.5)


def test_a_checkpoint_that_does_not_say_its_seconds_counts_none(tmp_path: Path) -> None:
    assert recall(tmp_path) == Past({}, 0.0)
    save_atomically(tmp_path / "step-old.safetensors", {"links": {"shop": [1, 2]}})
    assert recall(tmp_path) == Past({"shop": (1, 2)}, 0.0)


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(TypeError, match="a set cannot be part"):
        pack({"x": {1, 2}}, {})


def test_two_steps_cannot_share_a_name() -> None:
    talk = Talk(["bank", "shop"]).talks["bank"]
    Resumable("training", talk, {})
    with pytest.raises(ValueError, match="two long steps called 'training'"):
        Resumable("training", talk, {})
