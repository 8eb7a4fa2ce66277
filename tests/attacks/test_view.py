"""What a party can put together of the messages it received."""

from __future__ import annotations

import torch

from vesica.attacks.view import ELSEWHERE, Seen, View
from vesica.metrics import Task
from vesica.protocol.message import Message


def seen(rows: list[int], values: list[float]) -> Seen:
    message = Message("representations", {"values": torch.tensor(values)[:, None]})
    return Seen("shop", "representations", lambda: message, torch.tensor(rows), len(rows), 0)


def test_a_row_is_known_by_the_first_a_middle_and_the_last_value_shown_of_it() -> None:
    messages = (
        seen([2, 0, ELSEWHERE], [1.0, 10.0, 99.0]),
        seen([0, 2], [20.0, 2.0]),
        seen([2], [3.0]),
        seen([1, 2], [7.0, 4.0]),
        seen([2], [5.0]),
    )
    view = View("bank", Task("classification", "auc", ("a", "b")), messages)
    found = {
        times: (rows.tolist(), values.tolist())
        for times, (rows, values) in view.by_times("representations", sender="shop").items()
    }
    assert found == {1: ([1], [[7.0]]), 2: ([0], [[10.0, 20.0]]), 5: ([2], [[1.0, 3.0, 5.0]])}
