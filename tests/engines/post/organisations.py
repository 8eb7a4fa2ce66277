"""Organisations with tables of their own that train by post, each in a folder of its own."""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engines.post.desks import carry, make_desks
from vesica.engines.post.desk import WaitingForFile
from vesica.engines.post.folder import DeskFolder
from vesica.experiment.member import Plan
from vesica.experiment.post import Correspondence
from vesica.experiment.result import Result
from vesica.methods import FedHSSL, FedOnce, FewShot, Method, OneShot, SplitNN

COMMON = 60
# A value of one row of each: long enough not to stand in a digest by chance, and exact in float32 too.
PLANTED = {"bank": "8341753.5", "shop": "7190790.5", "camera": "6455328.5"}
METHODS: dict[str, Method] = {
    "one-shot": OneShot(guest_steps=20, host_epochs=2, batch_size=8, mu=2),
    "few-shot": FewShot(guest_steps=10, guest_patience=0, host_epochs=2, batch_size=8, mu=2, finetune_iterations=2),
    "fedonce": FedOnce(guest_epochs=2, host_epochs=2),
    "fedhssl": FedHSSL(pretrain_epochs=1, batch_size=32, width=4, finetune_epochs=1, finetune_batch_size=32),
    "split-nn": SplitNN(epochs=2, batch_size=16),
}


def write_tables(root: Path, guests: Sequence[str] = ("shop",)) -> dict[str, Path]:
    """A folder a party with its own table, the ids all have, and a federation.toml that says what all share."""
    random = np.random.default_rng(0)
    names = ["bank", *guests]
    of_party = {name: random.normal(size=(COMMON + 30, 3)) for name in names}
    bought = sum(values.sum(axis=1) for values in of_party.values()) > 0
    for number, (name, values) in enumerate(of_party.items()):
        alone = range(COMMON + 10 * number, COMMON + 10 * number + 10)
        lines = [f"id,{name}-a,{name}-b,{name}-c" + (",bought" if name == "bank" else "")]
        for row in [*range(COMMON), *alone]:
            cells = [f"customer-{row:03d}", *map(str, values[row])]
            cells[1] = PLANTED[name] if row == 7 else cells[1]
            lines.append(",".join(cells) + (f",{int(bought[row])}" if name == "bank" else ""))
        (root / name).mkdir(parents=True)
        (root / name / f"{name}.csv").write_text("\n".join(lines))
        (root / name / "common.csv").write_text("\n".join(["id", *(f"customer-{row:03d}" for row in range(COMMON))]))
    sections = ['metric = "auc"\n[host]\nname = "bank"\ntable = "bank.csv"\nid = "id"\nlabel = "bought"\n']
    sections += [f'[[guest]]\nname = "{name}"\ntable = "{name}.csv"\nid = "id"\n' for name in guests]
    for name in names:
        (root / name / "federation.toml").write_text("".join(sections))
    return {name: root / name / "federation.toml" for name in names}


class Town:
    """Parties, their desks, and a postman who only copies files."""

    def __init__(
        self, root: Path, plan: Plan, guests: Sequence[str] = ("shop",), *, keep_messages: bool = False
    ) -> None:
        self.root, self.plan, self.keep_messages = root, plan, keep_messages
        self.files = write_tables(root / "tables", guests)
        self.desks = make_desks(root / "desks", *self.files)
        self.ids = "common.csv"

    def party(self, name: str) -> Correspondence:
        """As each command finds it: nothing is left of the one before but what is on disk."""
        path = self.files[name]
        return Correspondence.open(
            self.plan,
            path,
            folder=self.desks[name],
            common=path.with_name(self.ids),
            label="first",
            keep_messages=self.keep_messages,
        )

    def use_arrays(self) -> None:
        """The same tables as NPZ, which a process that was forked can read: polars has threads."""
        self.ids = "common.npz"
        for path in self.files.values():
            path.write_text(path.read_text().replace(".csv", ".npz"))
            for table in path.parent.glob("*.csv"):
                heads, *rows = (line.split(",") for line in table.read_text().split())
                columns = dict(zip(heads, zip(*rows, strict=True), strict=True))
                arrays = {
                    name: np.array(values, dtype=str if name == "id" else float) for name, values in columns.items()
                }
                np.savez(table.with_suffix(".npz"), **arrays)

    def moved(self, root: Path) -> Town:
        """The same parties in another place, where nothing has happened yet."""
        shutil.copytree(self.root, root)
        town = copy.copy(self)
        town.root = root
        town.files = {name: root / path.relative_to(self.root) for name, path in self.files.items()}
        town.desks = {name: DeskFolder(root / desk.path.relative_to(self.root)) for name, desk in self.desks.items()}
        return town

    def act(self, name: str) -> Result | None:
        return self.party(name).go_on()

    def carry_all(self) -> None:
        for sender in self.desks.values():
            for receiver in self.desks.values():
                carry(sender, receiver)

    def train(self, *, rounds: int = 200) -> Result:
        """Each acts until it misses a file, again and again."""
        result = None
        for _ in range(rounds):
            for name, desk in self.desks.items():
                if is_finished(desk):
                    continue
                with contextlib.suppress(WaitingForFile):
                    result = self.act(name) or result
                self.carry_all()
            if all(map(is_finished, self.desks.values())):
                assert result is not None
                return result
        raise AssertionError("they never came to an end")


def is_finished(desk: DeskFolder) -> bool:
    return (desk.run("first") / "result.json").exists()


def in_one_folder(town: Town, folder: Path) -> Path:
    """What a simulation reads: all tables beside one federation.toml."""
    folder.mkdir()
    for path in town.files.values():
        for file in path.parent.iterdir():
            shutil.copy(file, folder)
    return folder / "federation.toml"
