"""What a host of a run over NVFlare does once the run is finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

from vesica.engines.nvflare.note import Note, State
from vesica.engines.nvflare.run_file import keep_waiting, recall_waiting
from vesica.errors import InputError
from vesica.experiment.member import Plan
from vesica.experiment.nvflare import Site, see_off
from vesica.methods import OneShot

RUN = b"r" * 16


class Line:
    """Calls of guests that come as soon as it is open."""

    def __init__(self, **states: State) -> None:
        self.states, self.answers = states, dict[str, Note]()

    def open(self, answer: Any) -> None:
        for guest, state in self.states.items():
            note = Note(RUN, state, life=b"lifetime", number=1)
            self.answers[guest] = Note.unpack(answer(guest, note.pack()), peer="bank")


def test_guests_that_were_killed_at_the_end_hear_that_it_is_finished(tmp_path: Path) -> None:
    keep_waiting(tmp_path, RUN, {"shop", "clinic", "lab"})
    line: Any = Line(shop=State.RUNNING, clinic=State.FINISHED)
    assert see_off(line, tmp_path, seconds=0.1) == {"shop", "lab"}
    assert {guest: note.state for guest, note in line.answers.items()} == dict.fromkeys(line.states, State.FINISHED)
    assert recall_waiting(tmp_path) == (RUN, {"shop", "lab"})


def test_a_host_waits_for_nobody_once_all_have_ended(tmp_path: Path) -> None:
    keep_waiting(tmp_path, RUN, {"shop"})
    line: Any = Line(shop=State.FINISHED)
    assert see_off(line, tmp_path, seconds=60) == set()
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_a_run_leads_out_of_no_folder(tmp_path: Path) -> None:
    kit: Any = None  # not needed so early
    with pytest.raises(InputError, match=r"a run cannot be called '\.\./x'"):
        Site(kit, tmp_path, tmp_path, tmp_path).member(Plan(OneShot()), "../x")
