"""What has come for one run: files in any order, under any name, twice, and files of others among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from vesica.engines.post.envelope import Envelope, Header, Mark, PostError, named
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.keys import Card, Identity

MAX_FILES_PER_SENDER = 1000  # read per sender: files named as its messages of this run
MAX_REFUSALS_SHOWN = 20  # named one by one; the rest is counted
MAX_OTHER_FILES = 1000  # read of the files that are not named as messages of this run


class Letter(NamedTuple):
    """A file of this run, for this party, signed by who it says it is from; not yet opened."""

    path: Path
    header: Header


class _Refused(NamedTuple):
    claims: str | None  # the name of the message that it may have been meant for
    fault: PostError


class Inbox:
    """Knows a message by what its sender signed. Files of other runs are left alone.

    Strangers may fill an inbox: of a file that no sender has signed only the first few thousand bytes are read. Of
    each sender those files come first whose numbers are closest to the next message, and only so many are read.
    """

    def __init__(self, folder: DeskFolder, mark: Mark, me: Identity, *, senders: Mapping[str, Card]) -> None:
        self._folder, self._mark, self._me, self._senders = folder, mark, me, senders
        self._letters: dict[Path, Letter] = {}
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._refused: dict[Path, _Refused] = {}
        self._others = self._far = 0

    def look(self, *, next_of: Mapping[str, int] | None = None) -> None:
        """Read what is new since the last time, first what has the name of a message to this party in this run.

        `next_of` has the number of each sender's next message, where it is not the first.
        """
        others = self._folder.arrived()
        ours: list[Path] = []
        self._far = 0
        for sender in self._senders:
            start = f"{self._mark.run}.{sender}.{self._me.name}."
            called = [path for path in others if path.name.startswith(start) and named(path)]
            called.sort(key=partial(_distance, number=(next_of or {}).get(sender, 1)))
            ours += called[:MAX_FILES_PER_SENDER]
            self._far += len(called[MAX_FILES_PER_SENDER:])
            others = sorted(set(others) - set(called))
        self._others = len(others)
        for path in ours + others[:MAX_OTHER_FILES]:
            try:
                found = path.stat()
            except FileNotFoundError:  # somebody has just taken it away
                continue
            stamp = found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
            if self._seen.get(path) != stamp:
                self._seen[path] = stamp
                self._take_in(path)

    def letters(self, sender: str | None = None, number: int | None = None) -> Iterator[Letter]:
        """Those that are there: all, or of one sender, or of one number."""
        for letter in self._letters.values():
            if sender in (None, letter.header.sender) and number in (None, letter.header.number):
                yield letter

    def open(self, letter: Letter) -> memoryview:
        """The message in it."""
        envelope = Envelope.read(letter.path)
        envelope.check(self._senders[letter.header.sender])
        if envelope.header != letter.header:
            raise PostError(f"{letter.path} was replaced while it was read: give the same command again")
        return envelope.open(self._me)

    def remove(self, letter: Letter) -> None:
        letter.path.unlink(missing_ok=True)
        del self._letters[letter.path]

    def refused(self) -> list[str]:
        """A sentence for each file that is of no run here; of many, one for all that are left."""
        said = [str(fault) for _, fault in list(self._refused.values())[:MAX_REFUSALS_SHOWN]]
        if len(self._refused) > MAX_REFUSALS_SHOWN:
            said.append(
                f"{self._folder.inbox} has {len(self._refused) - MAX_REFUSALS_SHOWN:,} more files that were refused: "
                "remove what no run needs"
            )
        if self._far:
            said.append(
                f"{self._folder.inbox} has {self._far:,} more files that are called as messages of the run "
                f"'{self._mark.run}', and were not looked into, as other messages come before: remove what nobody sent"
            )
        if self._others > MAX_OTHER_FILES:
            said.append(
                f"{self._folder.inbox} has {self._others:,} files that are not called as messages of the run "
                f"'{self._mark.run}', and only {MAX_OTHER_FILES:,} of them were looked into: remove what no run needs"
            )
        return said

    def fault_of(self, wanted: str) -> PostError | None:
        """What is wrong with a file that was refused and may be the one that is wanted."""
        return next((fault for claims, fault in self._refused.values() if claims == wanted), None)

    def _take_in(self, path: Path) -> None:
        claims = named(path)
        self._refused.pop(path, None)
        self._letters.pop(path, None)
        try:
            envelope = Envelope.read(path)
            claims = envelope.header.file_name
            if envelope.header.mark.run == self._mark.run:  # else it may be of another run of this party
                self._check(envelope)
                self._letters[path] = Letter(path, envelope.header)
        except PostError as fault:
            self._refused[path] = _Refused(claims, fault)
        except OSError as error:
            said = f"{path} cannot be read ({error.strerror}): mend that, or remove it"
            self._refused[path] = _Refused(claims, PostError(said))

    def _check(self, envelope: Envelope) -> None:
        """Of this very run, for this party, and signed by one who may send to it."""
        header, start = envelope.header, f"{envelope.path} of '{envelope.header.sender}' is"
        if header.mark.cards != self._mark.cards:
            raise PostError(f"{start} {self._mark.differs(header.mark)}: trust the same cards at all parties")
        if header.receiver != self._me.name:
            raise PostError(f"{start} for '{header.receiver}' and not for '{self._me.name}': carry it there")
        if header.sender not in self._senders:
            raise PostError(f"{start} from one who sends nothing here in the run '{self._mark.run}': remove it")
        envelope.check(self._senders[header.sender])
        difference = self._mark.between(self._me, self._senders[header.sender]).differs(header.mark)
        if difference:
            begun = self._folder.run(self._mark.run).exists()
            away = f"; if the mistake is here, move runs/{self._mark.run} of this desk away before" if begun else ""
            raise PostError(f"{start} {difference}: give all parties the same command{away}")


def _distance(path: Path, *, number: int) -> int:
    """How far the number in a file's name is from this one."""
    return abs(int(path.name.split(".")[3]) - number)
