"""One message, one file: whole, from whom it says, for whom it says, of the run it says; or refused."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import fuzz

from engines.post.desks import make_desks, mark_of
from vesica.engines.post.envelope import (
    DIGEST,
    LENGTH,
    MAGIC,
    MAX_BODY,
    PREFIX,
    SIGNATURE,
    TAG,
    Envelope,
    Header,
    Mark,
    PostError,
    named,
    seal,
)
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.inbox import Inbox

SECRET = b"salary 83,417 of customer c017 "


class Scene:
    """A message of the shop on its way to the bank, and the bank's inbox."""

    def __init__(self, root: Path) -> None:
        self.folders = make_desks(root, "bank", "shop", "thief")
        self.bank, self.shop = self.folders["bank"], self.folders["shop"]
        self.mark = mark_of(self.bank)
        self.header = Header(self.between(self.mark), "ab" * 32, "shop", "bank", 3, 2, "cd" * 32)
        self.good = self.seal(self.header)

    def between(self, mark: Mark) -> Mark:
        return mark.between(self.shop.identity(), self.bank.identity().card)

    def seal(self, header: Header, *, by: str = "shop", to: str = "bank", content: bytes = SECRET) -> bytes:
        frame, sender = memoryview(content), self.folders[by].identity()
        return seal(frame, header, sender=sender, receiver=self.folders[to].identity().card)

    def inbox(self) -> Inbox:
        return Inbox(self.bank, self.mark, self.bank.identity(), senders=self.bank.cards(["shop"]))

    def put(self, data: bytes, name: str = "first.shop.bank.000003.post") -> Path:
        path = self.bank.inbox / name
        path.unlink(missing_ok=True)  # some disks wait where a file is emptied and written again
        path.write_bytes(data)
        return path

    def is_taken(self, data: bytes, name: str = "first.shop.bank.000003.post") -> bool:
        path = self.put(data, name)
        inbox = self.inbox()
        inbox.look()
        path.unlink()
        return bool(list(inbox.letters()))

    def refusal(self, data: bytes, name: str = "first.shop.bank.000003.post") -> str:
        path = self.put(data, name)
        inbox = self.inbox()
        inbox.look()
        path.unlink()
        (said,) = inbox.refused()
        assert str(path) in said
        return said


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_was_sealed_is_opened(scene: Scene) -> None:
    scene.put(scene.good)
    inbox = scene.inbox()
    inbox.look()
    (letter,) = inbox.letters("shop", 3)
    assert replace(letter.header, key="", size=0) == scene.header
    assert bytes(inbox.open(letter)) == SECRET


def test_who_guesses_the_settings_cannot_tell_that_the_guess_is_right(scene: Scene) -> None:
    """Not from the file, not with all cards, and not as a third party; the two themselves agree."""
    for digest in (scene.mark.federation, scene.mark.method):
        assert digest.encode() not in scene.good
    bank, shop, thief = (scene.folders[name].identity() for name in ("bank", "shop", "thief"))
    right = scene.mark.between(bank, shop.card)
    assert right == scene.header.mark
    for guess in (scene.mark.between(thief, shop.card), scene.mark.between(thief, bank.card)):
        assert not {right.federation, right.method} & {guess.federation, guess.method}
    assert right.federation != replace(scene.mark, run="second").between(bank, shop.card).federation


def test_the_layout_is_the_documented_one(scene: Scene) -> None:
    assert scene.good.startswith(b"vesica post 2\n")
    (length,) = LENGTH.unpack(scene.good[len(MAGIC) : PREFIX])
    header = json.loads(scene.good[PREFIX : PREFIX + length])
    assert header.keys() == {
        *(
            "run",
            "federation",
            "method",
            "cards",
            "session",
            "sender",
            "receiver",
            "number",
            "held",
            "fresh",
            "key",
            "size",
        ),
    }
    body = PREFIX + length + DIGEST + SIGNATURE
    assert header["size"] == len(SECRET) + TAG == len(scene.good) - body
    assert scene.good[PREFIX + length :][:DIGEST] == hashlib.sha256(scene.good[body:]).digest()


def test_the_message_is_not_in_the_file_and_no_two_files_are_alike(scene: Scene) -> None:
    assert SECRET[:12] not in scene.good
    again = scene.seal(scene.header)
    assert again[-200:] != scene.good[-200:]
    assert scene.is_taken(again)


def test_ten_thousand_mutations_are_refused(tmp_path: Path) -> None:
    """But for what the sender itself sealed for this receiver; `benchmarks/fuzz.py` does the same with 100,000."""
    report = fuzz.mutate_files(10_000, tmp_path, seed=0)
    assert report.examples == []
    assert report.faults.total() == 0
    assert set(report.refused) == set(fuzz.ON_FILES)
    assert set(report.accepted) == {"header, sealed", "addresses"}
    assert report.refused.total() > 9_500


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"receiver": "thief"}, "of 'shop' is for 'thief' and not for 'bank'"),
        ({"sender": "thief"}, "of 'thief' is from one who sends nothing here"),
    ],
)
def test_what_is_for_or_from_others_is_named(change: dict[str, str], said: str, scene: Scene) -> None:
    assert said in scene.refusal(scene.seal(replace(scene.header, **change)), name="letter")


def test_what_another_signed_is_refused(scene: Scene) -> None:
    assert "is not signed by 'shop', or was changed" in scene.refusal(scene.seal(scene.header, by="thief"))


def test_what_is_encrypted_to_another_is_refused(scene: Scene) -> None:
    scene.put(scene.seal(scene.header, to="thief"))
    inbox = scene.inbox()
    inbox.look()
    (letter,) = inbox.letters()
    with pytest.raises(PostError, match="of 'shop' and not encrypted to the card of 'bank'"):
        inbox.open(letter)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ({"method": "few-shot"}, "with other settings of the method, or of another method, than here"),
        ({"task": "regression"}, "with other settings of the federation"),
        ({"method": "few-shot", "task": "regression"}, "labels) and settings of the method, or of"),
    ],
)
def test_another_run_under_the_same_name_is_refused_and_it_says_which(mark: dict, said: str, scene: Scene) -> None:
    refusal = scene.refusal(scene.seal(replace(scene.header, mark=scene.between(mark_of(scene.bank, **mark)))))
    assert "of 'shop' is of a run 'first'" in refusal
    assert said in refusal


def test_other_cards_are_refused_and_it_says_so(scene: Scene, tmp_path: Path) -> None:
    elsewhere = make_desks(tmp_path / "elsewhere", "bank", "shop")
    other = scene.seal(replace(scene.header, mark=scene.between(mark_of(elsewhere["shop"]))))
    assert "with other cards of the parties than here" in scene.refusal(other)


def test_files_of_other_runs_are_left_alone(scene: Scene) -> None:
    other = scene.seal(replace(scene.header, mark=mark_of(scene.bank, run="second")))
    path = scene.put(other, "second.shop.bank.000003.post")
    inbox = scene.inbox()
    inbox.look()
    assert not list(inbox.letters())
    assert inbox.refused() == []
    assert path.exists()


def test_any_name_will_do_but_that_of_another_message(scene: Scene) -> None:
    assert scene.is_taken(scene.good, "attachment (2).bin")
    for name in ("first.shop.bank.000004.post", "first.bank.shop.000003.post", "second.shop.bank.000003.post"):
        assert "first.shop.bank.000003.post under another one's name" in scene.refusal(scene.good, name)


def test_what_is_cut_short_says_so(scene: Scene) -> None:
    assert "is cut short after 300 bytes" in scene.refusal(scene.good[:300])
    assert f"is cut short after {len(scene.good) - 1} bytes" in scene.refusal(scene.good[:-1])


def test_what_was_changed_says_so(scene: Scene) -> None:
    assert "is of 'shop' and was changed on its way" in scene.refusal(scene.good[:-1] + b"?")
    assert "is damaged: the sizes in it cannot be" in scene.refusal(scene.good + b"?")
    assert "is not signed by 'shop', or was changed on" in scene.refusal(scene.good.replace(b'"held": 2', b'"held": 3'))


def test_a_message_of_the_first_version_is_refused_and_it_says_why(scene: Scene) -> None:
    said = scene.refusal(b"vesica post 1\n" + scene.good[len(MAGIC) :])
    assert said.endswith(
        "is a message in another version of the format: use the same version of Vesica at all parties and have it sent "
        "again, or remove it"
    )


def test_a_stranger_is_told_nothing_but_that(scene: Scene) -> None:
    assert "is no message of this version of Vesica" in scene.refusal(b"hello", "notes.txt")


def test_sizes_are_checked_before_anything_is_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    path = scene.put(MAGIC + LENGTH.pack(2**31) + b"{}")
    with pytest.raises(PostError, match="the sizes in it cannot be"):
        Envelope.read(path)
    with path.open("wb") as file:
        file.write(scene.good)
        file.truncate(2**40)  # sparse: takes no room, and must not be read
    with pytest.raises(PostError, match="the sizes in it cannot be"):
        Envelope.read(path)


def test_a_large_file_that_nobody_signed_takes_no_memory(scene: Scene) -> None:
    """Its header is right, and of the sender's own making but for the size: a stranger saw one on its way."""
    size = 2**25
    start = replace(scene.header, key="ab" * 32, size=size).to_bytes()
    path = scene.put(start)
    with path.open("r+b") as file:
        file.truncate(len(start) + DIGEST + SIGNATURE + size)
    inbox = scene.inbox()
    tracemalloc.start()
    try:
        inbox.look()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "is not signed by 'shop'" in inbox.refused()[0]
    assert peak < 2**20


def test_a_large_message_is_checked_piece_by_piece(scene: Scene) -> None:
    scene.put(scene.seal(scene.header, content=bytes(2**25)))
    inbox = scene.inbox()
    tracemalloc.start()
    try:
        inbox.look()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(list(inbox.letters())) == 1
    assert peak < 2**23


def test_a_full_inbox_keeps_no_message_from_being_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vesica.engines.post.inbox.MAX_OTHER_FILES", 3)
    for number in range(5):
        (scene.bank.inbox / f"0-junk-{number}").write_text("no message")
    scene.put(scene.good)
    inbox = scene.inbox()
    inbox.look()
    assert len(list(inbox.letters())) == 1
    *junk, more = inbox.refused()
    assert len(junk) == 3
    assert more == (
        f"{scene.bank.inbox} has 5 files that are not called as messages of the run 'first', and only 3 of them were "
        "looked into: remove what no run needs"
    )


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.put(scene.good)
    (scene.bank.inbox / "locked").touch()
    read = Envelope.read

    def refuse(path: Path) -> Envelope:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Envelope, "read", refuse)
    inbox = scene.inbox()
    inbox.look()
    assert len(list(inbox.letters())) == 1
    assert inbox.refused() == [
        f"{scene.bank.inbox / 'locked'} cannot be read (Permission denied): mend that, or remove it"
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("number", -1), ("number", True), ("held", 2**60), ("size", TAG - 1), ("size", MAX_BODY + 1)],
        *[("sender", "../x"), ("session", "ab"), ("key", 7), ("more", 1)],
    ],
)
def test_a_header_that_is_not_what_it_should_be_is_refused(field: str, value: object, scene: Scene) -> None:
    (length,) = LENGTH.unpack(scene.good[len(MAGIC) : PREFIX])
    said = json.loads(scene.good[PREFIX : PREFIX + length]) | {field: value}
    text = json.dumps(said).encode()
    assert "is damaged: its " in scene.refusal(MAGIC + LENGTH.pack(len(text)) + text + bytes(100))


def test_a_zero_key_is_refused(scene: Scene) -> None:
    """X25519 with a point of small order gives zeros, which everybody knows."""
    body = bytes(40)
    signed = replace(scene.header, key="00" * 32, size=40).to_bytes() + hashlib.sha256(body).digest()
    scene.put(signed + scene.shop.identity().signing.sign(signed) + body)
    inbox = scene.inbox()
    inbox.look()
    (letter,) = inbox.letters()
    with pytest.raises(PostError, match="not encrypted to the card of 'bank'"):
        inbox.open(letter)


def test_names_of_messages_are_known() -> None:
    assert named(Path("in/first.shop.bank.000003.post"))
    for name in (
        "first.shop.bank.post",
        "a.first.shop.bank.000003.post",
        "first.shop.bank.x.post",
        "first.shop.bank.1",
    ):
        assert named(Path(name)) is None


def test_a_desk_folder_is_no_place_for_odd_runs(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"a run cannot be called '\.\./x'"):
        DeskFolder(tmp_path).run("../x")


def test_one_guest_cannot_pass_anothers_body_off_as_its_own(tmp_path: Path) -> None:
    folders = make_desks(tmp_path, "bank", "shop", "camera")
    bank, mark = folders["bank"].identity(), mark_of(folders["bank"])
    header = Header(mark.between(folders["shop"].identity(), bank.card), "ab" * 32, "shop", "bank", 3, 2, "cd" * 32)
    good = seal(memoryview(SECRET), header, sender=folders["shop"].identity(), receiver=bank.card)
    (length,) = LENGTH.unpack(good[len(MAGIC) : PREFIX])
    key = json.loads(good[PREFIX : PREFIX + length])["key"]
    theirs = mark.between(folders["camera"].identity(), bank.card)
    body = good[PREFIX + length + DIGEST + SIGNATURE :]
    start = replace(header, mark=theirs, sender="camera", key=key, size=len(body)).to_bytes()
    signed = start + hashlib.sha256(body).digest()
    (folders["bank"].inbox / "x").write_bytes(signed + folders["camera"].identity().signing.sign(signed) + body)
    inbox = Inbox(folders["bank"], mark, bank, senders=folders["bank"].cards(["shop", "camera"]))
    inbox.look()
    (letter,) = inbox.letters()
    with pytest.raises(PostError, match="not encrypted to the card of 'bank'"):
        inbox.open(letter)
