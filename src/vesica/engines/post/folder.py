"""A desk on disk: a party's identity, its partners' cards, what came in, what is to go out, and its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vesica.engines.post.envelope import file_name, named
from vesica.engines.post.keys import Card, Identity, check_name
from vesica.engines.post.notes import Notes
from vesica.errors import InputError
from vesica.protocol.files import write_atomically


@dataclass(frozen=True)
class DeskFolder:
    """All of it is the party's own; only its card and the files of the outbox are for others."""

    path: Path

    @property
    def inbox(self) -> Path:
        return self.path / "inbox"

    def outbox(self, receiver: str) -> Path:
        return self.path / "outbox" / receiver

    def run(self, label: str) -> Path:
        check_name(label, "a run")
        return self.path / "runs" / label

    def card(self, name: str) -> Path:
        return self.path / f"{name}.card"

    @property
    def identity_file(self) -> Path:
        return self.path / "identity.json"

    def create(self, name: str) -> Identity:
        """A new desk, for its owner alone."""
        check_name(name, "a party")
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            identity = Identity.create(self.identity_file, name)
            for folder in ("inbox", "outbox", "partners", "runs"):
                (self.path / folder).mkdir(mode=0o700, exist_ok=True)
            write_atomically(self.card(name), identity.card.to_text())
        except OSError as error:
            raise InputError(f"{self.path} cannot be made ({error.strerror}): give another desk") from error
        return identity

    def identity(self) -> Identity:
        return Identity.read(self.identity_file)

    def trust(self, path: Path) -> Card:
        """Take a partner's card; once there, it is not replaced by another."""
        mine, card = self.identity().card, Card.read(path)
        if card.name == mine.name:
            raise InputError(f"{path} is a card of '{mine.name}', as you are called: give your partners' cards")
        known = {other.name: other for other in self.partners()}.get(card.name, card)
        if known != card:
            raise InputError(
                f"{path} is another card of '{card.name}' than the one trusted here ({known.fingerprint}): if it is "
                f"right, remove {self._partner(card.name)} first"
            )
        write_atomically(self._partner(card.name), card.to_text())
        return card

    def partners(self) -> list[Card]:
        return [Card.read(path) for path in sorted((self.path / "partners").glob("*.card"))]

    def cards(self, names: Sequence[str]) -> dict[str, Card]:
        """The cards of everyone who takes part in a run."""
        known = {card.name: card for card in (self.identity().card, *self.partners())}
        for name in names:
            if name not in known:
                raise InputError(f"the card of '{name}' is not trusted here: `vesica post trust {self.path} CARD`")
        return {name: known[name] for name in names}

    def labels(self) -> list[str]:
        return sorted(path.name for path in (self.path / "runs").glob("*") if path.is_dir())

    def leaving(self, label: str) -> Iterator[Path]:
        """The files of a run in the outbox."""
        for path in sorted((self.path / "outbox").glob("*/*.post")):
            if named(path) and path.name.partition(".")[0] == label:
                yield path

    def state(self, label: str) -> str:
        """How far a run has come, in words."""
        if (self.run(label) / "result.json").exists():
            return "finished"
        me = self.identity().name
        asked = Notes(self.run(label) / me / "journal").last_asked
        if asked is None:
            return "under way"
        sender, _, number = asked.partition(" ")
        wanted = file_name(label, sender, me, int(number))
        return f"{wanted} has come: run it again" if (self.inbox / wanted).exists() else f"waits for {wanted}"

    def arrived(self) -> list[Path]:
        """The files of the inbox, whatever they are."""
        self.inbox.mkdir(mode=0o700, exist_ok=True)
        return sorted(path for path in self.inbox.iterdir() if path.is_file() and not path.name.startswith("."))

    def _partner(self, name: str) -> Path:
        return self.path / "partners" / f"{name}.card"
