"""What the messages of FedHSSL show, in words."""

from __future__ import annotations

from collections.abc import Sequence

from vesica.protocol.averaging import GuestAveraging, HostAveraging


def projections(width: int, *, rows: int, times: int) -> str:
    return (
        f"In pre-training the host and each guest showed each other {width} numbers of each of the {rows} aligned "
        f"rows, {times} times. They follow from the sender's columns and, through what it has learned, from those of "
        "the parties it heard from, by way of the host also from other guests'; no label enters."
    )


def averaging(done: GuestAveraging | HostAveraging) -> str:
    """Whose tops were averaged, whose were not, and who sees them; the host knows."""
    assert isinstance(done, HostAveraging)
    groups, alone = done.groups, done.alone
    stayed = f"those of {', '.join(alone)} have other shapes and stayed at home" if alone else ""
    if not groups:
        return f"No tops of local encoders were averaged: {stayed}."
    averaged = " and those of ".join(", ".join(group) for group in groups)
    return (
        f"The tops of the local encoders, where there are any, with projector and predictor, of {averaged} were "
        "averaged after every epoch"
        + (f"; {stayed}" if stayed else "")
        + ". The paper has a server for that, apart from the party with the labels; here the host averages, and so it "
        "sees the guests' weights there (neither their rows nor the bottoms of their encoders; but weights trained on "
        "rows can tell about them), and of two that are averaged each can tell the other's."
    )


def one_pretraining(counts: Sequence[int]) -> str:
    *fewer, all_of_them = counts
    return (
        f"Fine-tuned {len(counts)} times from one pre-training, with {', '.join(map(str, fewer))} and {all_of_them} "
        "labelled rows: a result each, which counts the messages of pre-training and of its own fine-tuning; but all "
        "of them crossed."
    )
