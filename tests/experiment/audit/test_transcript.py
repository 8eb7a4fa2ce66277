"""A run folder with kept messages, read back: the right rows, at every party, however the run went."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from federations import quick, small_federation
from vesica.attacks.view import View
from vesica.errors import PartyError, RunFolderError
from vesica.experiment import fit
from vesica.experiment.audit.transcript import Transcript
from vesica.methods import FedCVT, FedHSSL, FewShot, Method, SplitNN

KEPT = ("one-shot", "split-nn", "fedbcd", "fedonce", "fedhssl", "fedlocalssl", "vflhlp", "pooled")
METHODS: dict[str, Method] = {name: quick(name) for name in KEPT} | {
    "few-shot finetuned": FewShot(guest_steps=10, host_epochs=2, batch_size=16, finetune_iterations=4),
    "fedcvt": FedCVT(epochs=2, batch_size=32, unaligned_batch_size=8),
    # Exactly as many rows in a batch as are labelled: they must not be taken for these.
    "fedcvt by chance": FedCVT(epochs=2, batch_size=32, unaligned_batch_size=8, joint_threshold=0.9),
    "fedhssl late": FedHSSL(pretrain_epochs=3, batch_size=16, width=4, finetune_epochs=1, exchange="late"),
}


def run(folder: Path, method: Method, **options: object) -> Path:
    fit(method, small_federation(guests=2), out=folder, keep_messages=True, **options)  # type: ignore[arg-type]
    return folder


def same(one: View, other: View) -> bool:
    """All messages, with their rows."""
    assert len(one.received) == len(other.received)
    for ours, theirs in zip(one.received, other.received, strict=True):
        assert (ours.sender, ours.message.kind) == (theirs.sender, theirs.message.kind)
        assert (ours.rows is None) == (theirs.rows is None)
        assert ours.rows is None or torch.equal(ours.rows, theirs.rows)  # type: ignore[arg-type]
        for name, tensor in ours.message.tensors.items():
            assert torch.equal(tensor, theirs.message.tensors[name])
    return True


@pytest.mark.parametrize("name", METHODS)
def test_both_ends_know_which_rows_a_message_is_about(name: str, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", METHODS[name])
    whole = Transcript.open(folder)
    elsewhere = shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(elsewhere / "shop1" / "journal")  # as between organisations: only the host's end is here
    from_host = Transcript.open(elsewhere)
    assert from_host.present == ["bank", "shop2"]
    assert from_host.views["shop1"].own is None
    assert same(whole.views["shop1"], from_host.views["shop1"])
    values = [seen for seen in whole.views["bank"].received if seen.message.kind in ("representations", "columns")]
    assert values
    assert all(seen.rows is not None for seen in values)


def test_the_rows_are_those_that_were_encoded(tmp_path: Path) -> None:
    """What the host received of the test rows is what the guest's encoder gives for these very rows."""
    whole = Transcript.open(run(tmp_path / "run", METHODS["one-shot"]))
    own = whole.views["shop1"].own
    assert own is not None
    last = [seen for seen in whole.views["bank"].received if seen.sender == "shop1"][-1]
    assert last.rows is not None
    assert torch.equal(last.rows, whole.of_use("test"))
    own.encoder.eval()
    torch.testing.assert_close(own.encoder(own.inputs[last.rows]), last.message.tensor)


def test_numbers_mean_the_same_person_everywhere(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", METHODS["split-nn"])
    whole, federation = Transcript.open(folder), small_federation(guests=2)
    label = torch.from_numpy(federation.label)
    total = sum(whole.inputs(party).sum(dim=1) for party in whole.parties)  # scaled ranks: they follow the columns
    rows = torch.cat([whole.of_use("train"), whole.of_use("test")])
    assert torch.corrcoef(torch.stack([total[rows], whole.labels[rows].float()]))[0, 1] > 0.7
    assert int(label.sum()) > int(whole.labels[rows].sum()) > 0


def test_a_run_that_was_interrupted_keeps_every_message_and_its_rows(tmp_path: Path) -> None:
    method = SplitNN(epochs=4, batch_size=16)
    whole = Transcript.open(run(tmp_path / "whole", method))

    def stop(party: str, step: str, position: int, total: int) -> None:
        if (party, position) == ("shop2", 2):
            raise OSError("the power went out")

    with pytest.raises(PartyError, match="the power went out"):
        run(tmp_path / "cut", method, progress=stop)
    again = Transcript.open(run(tmp_path / "cut", method))
    for party in whole.parties:
        assert same(whole.views[party], again.views[party])


def test_a_folder_without_messages_is_refused_in_a_sentence(tmp_path: Path) -> None:
    fit(quick("one-shot"), small_federation(), out=tmp_path / "run")
    with pytest.raises(RunFolderError, match="has no messages to look into: run it again with --keep-messages"):
        Transcript.open(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "said", "missing"),
    [
        ("run.json", {}, "str 'method'"),
        ("run.json", {"method": "one-shot", "config": {}, "parties": 5}, "list 'parties'"),
        ("result.json", {"statements": 5}, "list 'statements'"),
        ("result.json", {"statements": [], "epsilon": 1.0, "delta": 0}, "str 'protects'"),
    ],
)
def test_a_folder_that_says_too_little_of_its_run_is_refused_in_a_sentence(
    name: str, said: dict[str, object], missing: str, tmp_path: Path
) -> None:
    folder = run(tmp_path / "run", quick("one-shot"))
    (folder / name).write_text(json.dumps(said))
    with pytest.raises(RunFolderError, match=f"{name} is torn .it has no {missing}.: run it again in a new folder"):
        Transcript.open(folder)
