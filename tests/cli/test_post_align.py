"""`vesica post align`: what one place finds, found between desks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.conftest import Answer
from engines.post.desks import make_desks
from vesica.alignment.programs import Aligned, Alignment
from vesica.data.ids import Rules
from vesica.data.membership import read_membership
from vesica.data.toml import FederationFile
from vesica.engines.post.folder import DeskFolder
from vesica.errors import AgreementError, InputError, LateError
from vesica.experiment.alignment_member import AlignmentMember
from vesica.experiment.post import read_common
from vesica.experiment.post_alignment import PostedAlignment

Vesica = Callable[..., Answer]
BANK = "name,born,x,default\nAnn ,1980,1,0\nBartholomew,1990,2,1\nCid,1970,3,0\nNA,1960,4,1\n"
SHOP = "who,year,y\nbartholomew,1990,5\n ann,1980,6\ncid,1971,7\ndora,1950,8\n"
FEDERATION = """metric = "auc"
[host]
name = "bank"
table = "bank.csv"
id = ["name", "born"]
label = "default"
[[guest]]
name = "shop"
table = "shop.csv"
id = ["who", "year"]
"""
RULES = '[ids]\ntrim = true\ncase = "lower"\n'


@pytest.fixture
def desks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, DeskFolder]:
    """Two desks that trust each other, in the working directory, with both tables beside them."""
    monkeypatch.chdir(tmp_path)
    Path("bank.csv").write_text(BANK)
    Path("shop.csv").write_text(SHOP)
    Path("federation.toml").write_text(FEDERATION + RULES)
    return make_desks(Path("desks"), "bank", "shop")


class Postman:
    """Copies what is new, each file once, and under its name only when it is whole."""

    def __init__(self, desks: dict[str, DeskFolder]) -> None:
        self.desks, self.carried = desks, dict[str, bytes]()
        self.busy = threading.Lock()

    def __call__(self, sentence: str = "") -> None:
        with self.busy:
            for path in sorted(Path("desks").glob("*/outbox/*/*.post")):
                inbox = self.desks[path.parent.name].inbox
                if path.name not in self.carried:
                    self.carried[path.name] = path.read_bytes()
                    (inbox / ".coming").write_bytes(self.carried[path.name])
                    (inbox / ".coming").rename(inbox / path.name)
        time.sleep(0.01)


def align(
    desks: dict[str, DeskFolder], wanted: dict[str, Alignment], *, wait: float | None = None
) -> dict[str, Aligned | Exception]:
    """What each party comes to, each in a thread that plays the postman while it waits."""
    postman, found = Postman(desks), dict[str, Aligned | Exception]()

    def take_part(name: str, alignment: Alignment) -> None:
        out = Path(f"{name}-common.csv") if alignment.reveal == "ids" else None
        member = AlignmentMember.read(Path("federation.toml"), name, alignment=alignment, out=out)
        try:
            found[name] = PostedAlignment(member, desks[name], "ids", postman, wait).run(out)
        except (AgreementError, LateError) as fault:
            found[name] = fault

    threads = [threading.Thread(target=take_part, args=each, daemon=True) for each in wanted.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for content in postman.carried.values():
        assert b"bartholomew" not in content.lower()
    return found


def both(alignment: Alignment) -> dict[str, Alignment]:
    return {"bank": alignment, "shop": alignment}


def test_several_keys_meet_by_the_rules_and_stay_as_each_party_writes_them(desks: dict[str, DeskFolder]) -> None:
    found = align(desks, both(Alignment(FederationFile(Path("federation.toml")).rules)))
    assert [each.size for each in found.values()] == [2, 2]
    bank, shop = (Path(f"{name}-common.csv").read_text().splitlines() for name in ("bank", "shop"))
    assert (bank[0], shop[0]) == ("name,born", "who,year")
    pairs = list(zip(bank[1:], shop[1:], strict=True))
    assert sorted(pairs) == [("Ann ,1980", " ann,1980"), ("Bartholomew,1990", "bartholomew,1990")]


def test_what_was_aligned_by_rules_can_be_trained(desks: dict[str, DeskFolder]) -> None:
    """Both parties know the same ids, in their own tables' rows."""
    Path("bank.csv").write_text(BANK.replace("NA,1960", "Eve,1960"))
    align(desks, both(Alignment(Rules(trim=True, case="lower"))))
    federation = Path("federation.toml")
    known = {name: read_common(Path(f"{name}-common.csv"), federation, name) for name in desks}
    assert sorted(known["bank"]) == sorted(known["shop"]) == ['["ann", "1980"]', '["bartholomew", "1990"]']
    for name, common in known.items():
        members = read_membership(federation, name, common=common)
        mine = next(party for party in members.parties if party.name == name)
        assert set(common) < set(mine.table.ids)
        assert list(mine.table.columns) == (["x"] if name == "bank" else ["y"])


def test_the_number_alone_is_found_and_nothing_written(desks: dict[str, DeskFolder]) -> None:
    found = align(desks, both(Alignment(Rules(trim=True, case="lower"), reveal="size")))
    assert [(each.size, each.rows) for each in found.values()] == [(2, None), (2, None)]
    assert list(Path().glob("*-common.csv")) == []


def test_the_doctor_explains_an_empty_overlap(desks: dict[str, DeskFolder]) -> None:
    found = align(desks, both(Alignment(doctor=True)))
    assert found["bank"].size == 0
    assert any("key 1: yours have upper-case" in hint and "use --case lower" in hint for hint in found["bank"].hints)
    assert any("key 1: 1 of yours and 1 of theirs have white space" in hint for hint in found["shop"].hints)


def test_other_rules_at_one_party_are_refused_and_nobody_hangs(desks: dict[str, DeskFolder]) -> None:
    wanted = {"bank": Alignment(Rules(trim=True)), "shop": Alignment(Rules(case="lower"))}
    found = align(desks, wanted, wait=1.0)
    assert "'bank' aligns otherwise: its trim is True, here it is False" in str(found["shop"])
    assert "'shop' has not sent message 1 ('agreement') of the run 'ids' in time" in str(found["bank"])
    assert str(found["bank"]).endswith("then all parties begin again under another name")


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A command in a process of its own, which ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        call = [sys.executable, "-c", "from vesica.cli import main; main()", *arguments]
        started.append(subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()
        if each.stdout is not None:
            each.stdout.close()


def test_the_command_counts_carries_and_says_what_trains_need(
    desks: dict[str, DeskFolder], process: Callable[..., subprocess.Popen[str]]
) -> None:
    Path("federation.toml").write_text(FEDERATION + "[ids]\ntrim = true\n")  # which stays, as no option says otherwise
    options = ("--case", "lower", "--wait", "100", "--workers", "1")
    command = ("post", "align", "federation.toml", *options)
    running = {name: process(*command, "--desk", f"desks/{name}", "--out", f"{name}-common.csv") for name in desks}
    postman = Postman(desks)
    while any(each.poll() is None for each in running.values()):
        postman()
    said = {name: each.communicate()[0] for name, each in running.items()}
    assert [each.returncode for each in running.values()] == [0, 0], said
    assert "bank: 3 ids of 4 rows; 1 without an id, 0 repeated" in said["bank"]
    assert said["bank"].count("carry desks/bank/outbox/shop/align.bank.shop.000001.post to 'shop'") == 1
    assert "ids in common: 2; to shop-common.csv" in said["shop"]
    rules = '[ids]: trim = true, case = "lower", pad = 0'
    assert f"every party needs the same rules in federation.toml, {rules}" in said["shop"]
    last = "once all parties have ended, align.*.post may be removed from the inbox and the outbox in desks/shop"
    assert said["shop"].splitlines()[-1] == last


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either --out FILE.csv for the common ids, or --cardinality"),
        (("--out", "c.csv", "--cardinality"), "give either --out FILE.csv"),
        (("--out", "bank.csv"), "bank.csv is the table itself: give another file"),
        (("--out", "c.parquet"), "the common ids cannot be written to c.parquet: give a .csv file"),
        (("--out", "c.csv", "--wait", "0"), "--wait is 0: give a number of seconds above 0"),
        (("--out", "c.csv", "--case", "lowr"), "did you mean 'lower'"),
        (("--out", "c.csv", "--duplicates", "last"), "no rule 'last'"),
        (("--out", "c.csv", "--workers", "0"), "0 processes"),
        (("--out", "c.csv", "--run", "../x"), "a run cannot be called '../x'"),
    ],
)
def test_bad_input_is_one_sentence(
    options: tuple[str, ...], said: str, vesica: Vesica, desks: dict[str, DeskFolder]
) -> None:
    answer = vesica("post", "align", "federation.toml", "--desk", "desks/bank", *options)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_guest_that_never_comes_is_named(vesica: Vesica, desks: dict[str, DeskFolder]) -> None:
    options = ("--desk", "desks/bank", "--out", "c.csv", "--wait", "0.1")
    answer = vesica("post", "align", "federation.toml", *options)
    assert answer.code == 2
    assert "'shop' has not sent message 1 ('agreement') of the run 'align' in time" in answer.err


def test_a_party_that_is_in_no_federation_is_refused(desks: dict[str, DeskFolder]) -> None:
    with pytest.raises(InputError, match=r"federation\.toml has no party 'shup'; did you mean 'shop'"):
        AlignmentMember.read(Path("federation.toml"), "shup", alignment=Alignment(), out=Path("c.csv"))
