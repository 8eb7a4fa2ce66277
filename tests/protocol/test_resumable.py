"""States go to disk and come back as they were."""

import errno
import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Self

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

import vesica.protocol.resumable as module
from conversations import Talk
from vesica.engines import InProcess
from vesica.errors import InputError, RunFolderError
from vesica.protocol import Budget, Ledger, Link, files
from vesica.protocol.budget import Meter
from vesica.protocol.journal import Journal
from vesica.protocol.link import Conversation
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


def test_no_flipped_bit_changes_a_state_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    state = {"position": 3, "weights": torch.arange(4.0), "step": torch.tensor(7), "seen": torch.tensor([True, False])}
    save_atomically(path, state)
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 11):  # 11 and 8 have no common divisor: every place in a byte has its turn
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with suppress(RunFolderError):
            found = load(path)
            assert found.keys() == state.keys()
            assert found["position"] == 3
            for name in ("weights", "step", "seen"):
                assert found[name].dtype == state[name].dtype
                assert torch.equal(found[name], state[name])


def test_what_the_checkpoints_say_is_the_farthest_of_all(tmp_path: Path) -> None:
    links = [{"shop1": [3, 1]}, {"shop1": [2, 5], "shop2": [1, 1]}]
    save_atomically(tmp_path / "step-one.safetensors", {"links": links[0], "seconds": 7.5})
    save_atomically(tmp_path / "step-two.safetensors", {"links": links[1], "seconds": 2.0})
    assert recall(tmp_path, "bank") == Past({"shop1": (3, 5), "shop2": (1, 1)}, 7.5)


def test_without_a_checkpoint_nothing_is_recalled(tmp_path: Path) -> None:
    assert recall(tmp_path, "bank") == Past({}, 0.0)


class OpenedWithoutTensors:
    """A file of safetensors of which no tensor may be read."""

    def __init__(self, path: Path, framework: str) -> None:
        self.file = safe_open(path, framework=framework)

    def __enter__(self) -> Self:
        self.file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.file.__exit__(*error)

    def metadata(self) -> dict[str, str]:
        return self.file.metadata()


def test_to_recall_where_the_run_stood_no_tensor_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"links": {"shop": [3, 1]}, "seconds": 7.5, "parts": {"weights": torch.zeros(1000)}}
    save_atomically(tmp_path / "step-one.safetensors", state)
    monkeypatch.setattr(module, "safe_open", OpenedWithoutTensors)
    assert recall(tmp_path, "bank") == Past({"shop": (3, 1)}, 7.5)


class Nothing:
    """A part of a step that has no state."""

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, state: object) -> None:
        pass


def conversation_in(folder: Path, me: str = "bank", peer: str = "shop") -> Conversation:
    return Conversation(me, InProcess([me, peer]), Journal(folder, [peer]), Ledger(me, host="bank"), Meter(Budget()))


def take(talk: Conversation, steps: int, *, of: int, messages: int = 10) -> None:
    """Some positions of a step, each with so many messages and a point of the curve; then the process is killed."""
    (peer,) = talk.journal._peers
    link = Link(peer, talk)
    left = Resumable("training", talk, {peer: link}).steps(of, {"nothing": Nothing()})
    for _ in range(steps):
        next(left)
        for _ in range(messages):
            link.send("gradients", torch.zeros(4))
        talk.note(0.1)
    next(left, None)  # the last of them is saved


def test_a_step_that_goes_on_has_the_ledger_and_the_curve_of_one_that_was_never_left(tmp_path: Path) -> None:
    whole = conversation_in(tmp_path / "whole")
    take(whole, 6, of=6)
    for steps in (2, 1, 3):
        again = conversation_in(tmp_path / "again")
        take(again, steps, of=6)
    assert again.ledger.entries == whole.ledger.entries
    assert (again.ledger.rounds, again.ledger.wire) == (whole.ledger.rounds, whole.ledger.wire)
    assert again.curve == whole.curve
    assert len(again.curve) == 6


def test_what_a_checkpoint_writes_does_not_grow_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, sizes = conversation_in(tmp_path), []
    whole = module.save_atomically

    def measured(path: Path, state: object) -> None:
        whole(path, state)
        course = path.with_suffix(".jsonl")
        sizes.append((path.stat().st_size, course.stat().st_size if course.exists() else 0))

    monkeypatch.setattr(module, "save_atomically", measured)
    take(talk, 100, of=100)
    checkpoints, courses = zip(*sizes, strict=True)
    assert max(checkpoints) < checkpoints[0] + 100  # numbers in it take more digits
    appended = [after - before for before, after in pairwise((0, *courses))]
    assert len(appended) == 100
    assert max(appended) < appended[0] + 100


@pytest.mark.parametrize("damage", ["flipped", "cut off", "gone"])
def test_a_damaged_course_is_refused_in_one_sentence(tmp_path: Path, damage: str) -> None:
    take(conversation_in(tmp_path), 3, of=6)
    path = tmp_path / "step-training.jsonl"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else path.read_bytes()[:-1])
    with pytest.raises(RunFolderError, match=r"step-training.jsonl .* start again in a new folder"):
        take(conversation_in(tmp_path), 3, of=6)


def test_what_was_appended_and_no_checkpoint_knows_of_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, state: object) -> None:
        raise KeyboardInterrupt

    first = conversation_in(tmp_path / "run")
    take(first, 2, of=6)
    with monkeypatch.context() as patches:
        patches.setattr(module, "save_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            take(conversation_in(tmp_path / "run"), 1, of=6)
    again, whole = conversation_in(tmp_path / "run"), conversation_in(tmp_path / "whole")
    take(again, 4, of=6)
    take(whole, 6, of=6)
    assert again.ledger.entries == whole.ledger.entries
    assert again.curve == whole.curve


def test_a_run_that_was_killed_twice_goes_on_though_the_first_kill_left_half_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, state: object) -> None:
        raise KeyboardInterrupt

    take(conversation_in(tmp_path / "run"), 2, of=6)
    with monkeypatch.context() as patches:
        patches.setattr(module, "save_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            take(conversation_in(tmp_path / "run"), 1, of=6)
    take(conversation_in(tmp_path / "run"), 1, of=6, messages=3)  # shorter than what the kill left
    again, whole = conversation_in(tmp_path / "run"), conversation_in(tmp_path / "whole")
    take(again, 3, of=6)
    for steps, messages in ((2, 10), (1, 3), (3, 10)):
        whole = conversation_in(tmp_path / "whole")
        take(whole, steps, of=6, messages=messages)
    assert again.ledger.entries == whole.ledger.entries
    assert again.curve == whole.curve


def test_a_checkpoint_is_there_only_after_all_that_it_counts_on_has_reached_the_disk(
    tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    talk = conversation_in(tmp_path / "run")
    disk.clear()
    take(talk, 1, of=2)
    replaced = disk.index(("replaced", "step-training.safetensors"))
    assert ("synced", "segment-00000002.log") in disk[:replaced]
    course = disk[:replaced].index(("synced", "step-training.jsonl"))
    assert disk[course + 1] == ("synced", "run")  # its name
    assert disk[replaced - 1] == ("synced", "a new file")
    assert disk[replaced + 1] == ("synced", "run")


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("what", ["journal", "journal/step-training.safetensors"])
def test_files_of_two_parties_in_each_others_place_are_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    for party in ("shop", "clinic"):  # two guests: each talks to the bank alone
        take(conversation_in(tmp_path / party / "journal", party, "bank"), 1, of=2)
    swap(tmp_path / "shop" / what, tmp_path / "clinic" / what)
    with pytest.raises(
        RunFolderError, match=r"is the checkpoint of another party .* 'shop' has .*: put the files back"
    ):
        recall(tmp_path / "shop" / "journal", "shop")


def test_a_checkpoint_under_the_name_of_another_step_is_refused(tmp_path: Path) -> None:
    take(conversation_in(tmp_path), 1, of=2)
    (tmp_path / "step-training.safetensors").rename(tmp_path / "step-more training.safetensors")
    with pytest.raises(
        RunFolderError, match=r"step-more training.safetensors is the checkpoint of another party or step"
    ):
        recall(tmp_path, "bank")


@pytest.mark.parametrize("state", [{}, {"links": {}}, {"links": [1], "seconds": 1.0}, [1, 2], 3])
def test_a_whole_file_that_is_no_checkpoint_is_refused_in_one_sentence(tmp_path: Path, state: object) -> None:
    save_atomically(tmp_path / "step-training.safetensors", state)
    with pytest.raises(RunFolderError, match=r"step-training.safetensors is torn .*: start again in a new folder"):
        recall(tmp_path, "bank")


def test_a_ledger_that_is_put_back_within_a_step_is_refused(tmp_path: Path) -> None:
    talk = conversation_in(tmp_path)
    left = Resumable("training", talk, {"shop": Link("shop", talk)}).steps(2, {"nothing": Nothing()})
    next(left)
    talk.ledger.restore(())
    with pytest.raises(ValueError, match="put back in the middle of a long step"):
        next(left)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("save_file", SafetensorError("I/O error: No space left on device (os error 28)")),
        ("sync", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
    ],
)
def test_a_full_disk_at_a_checkpoint_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, error: Exception
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(module if function == "save_file" else files, function, full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\): make room for it, then"):
        save_atomically(tmp_path / "s.safetensors", {"x": torch.zeros(3)})


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(TypeError, match="a set cannot be part"):
        pack({"x": {1, 2}}, {})


def test_two_steps_cannot_share_a_name() -> None:
    talk = Talk(["bank", "shop"]).talks["bank"]
    Resumable("training", talk, {})
    with pytest.raises(ValueError, match="two long steps called 'training'"):
        Resumable("training", talk, {})
