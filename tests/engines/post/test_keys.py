"""Who a party is to the others."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engines.post.desks import make_desks
from vesica.engines.post.folder import DeskFolder
from vesica.engines.post.keys import Card, Identity
from vesica.errors import InputError


def test_secret_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = DeskFolder(tmp_path / "bank")
    folder.create("bank")
    assert folder.identity_file.stat().st_mode & 0o777 == 0o600
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.run("first") not in folder.identity_file.parents
    assert not [path for path in (folder.path / "runs").rglob("*")]


def test_two_parties_have_a_secret_that_no_third_has(tmp_path: Path) -> None:
    bank, shop, thief = (Identity.create(tmp_path / name, name) for name in ("bank", "shop", "thief"))
    assert bank.shared_with(shop.card) == shop.shared_with(bank.card)
    assert bank.shared_with(shop.card) not in (thief.shared_with(shop.card), thief.shared_with(bank.card))
    with pytest.raises(InputError, match="the card of 'shop' has a key that hides nothing: do not trust it"):
        bank.shared_with(replace(shop.card, opens=bytes(32)))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_keys_that_others_can_touch_are_refused(mode: int, tmp_path: Path) -> None:
    folder = DeskFolder(tmp_path / "bank")
    folder.create("bank")
    folder.identity_file.chmod(mode)
    with pytest.raises(InputError, match=rf"identity\.json holds secret keys and others can .*{mode:04o}"):
        folder.identity()


def test_a_card_holds_no_secret_and_is_read_back(tmp_path: Path) -> None:
    folder = DeskFolder(tmp_path / "bank")
    identity = folder.create("bank")
    card = folder.card("bank")
    assert Card.read(card) == identity.card == folder.identity().card
    for key in (identity.signing, identity.opening):
        assert key.private_bytes_raw().hex() not in card.read_text()
        assert key.private_bytes_raw().hex() in folder.identity_file.read_text()


def test_an_identity_is_never_replaced(tmp_path: Path) -> None:
    folder = DeskFolder(tmp_path / "bank")
    before = folder.create("bank").card
    with pytest.raises(InputError, match="holds an identity already"):
        folder.create("bank")
    assert folder.identity().card == before


def test_fingerprints_tell_names_and_keys_apart() -> None:
    card = Card("bank", bytes(32), bytes(32))
    others = [
        Card("bonk", bytes(32), bytes(32)),
        Card("bank", b"1" * 32, bytes(32)),
        Card("bank", bytes(32), b"1" * 32),
    ]
    assert len({each.fingerprint for each in (card, *others)}) == 4
    assert len(card.fingerprint.replace(" ", "")) == 40


def test_another_card_of_a_known_partner_is_refused(tmp_path: Path) -> None:
    folders = make_desks(tmp_path, "bank", "shop")
    impostor = DeskFolder(tmp_path / "impostor")
    impostor.create("shop")
    with pytest.raises(InputError, match="another card of 'shop' than the one trusted here"):
        folders["bank"].trust(impostor.card("shop"))
    assert folders["bank"].cards(["shop"])["shop"] == folders["shop"].identity().card
    with pytest.raises(InputError, match="is a card of 'bank', as you are called"):
        folders["bank"].trust(folders["bank"].card("bank"))


def test_a_party_without_a_card_is_named(tmp_path: Path) -> None:
    folders = make_desks(tmp_path, "bank", "shop")
    with pytest.raises(InputError, match="the card of 'camera' is not trusted here: `vesica post trust"):
        folders["bank"].cards(["bank", "camera"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no card of this version"),
        ("[1]", "is no card of this version"),
        ('{"card": 2, "name": "shop", "signs": "00", "opens": "00"}', "is no card of this version"),
        ('{"card": 1, "name": "shop", "signs": "00", "opens": "00"}', "whose name or keys are damaged"),
        ('{"card": 1, "name": 3, "signs": "00", "opens": "00"}', "whose name or keys are damaged"),
        (f'{{"card": 1, "name": "../x", "signs": "{0:064}", "opens": "{0:064}"}}', "cannot be called '../x'"),
        ("[" * 5000, "is no card of this version"),
    ],
)
def test_what_is_no_card_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.card").write_text(text)
    with pytest.raises(InputError, match=said):
        Card.read(tmp_path / "x.card")


def test_a_damaged_identity_is_refused_without_showing_it(tmp_path: Path) -> None:
    folder = DeskFolder(tmp_path / "bank")
    secret = folder.create("bank").signing.private_bytes_raw().hex()
    folder.identity_file.write_text(folder.identity_file.read_text().replace('"opens"', '"open"'))
    with pytest.raises(InputError, match="is no identity") as refusal:
        folder.identity()
    assert secret not in str(refusal.value)


def test_a_missing_desk_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="begin with `vesica post init --as NAME --desk"):
        Identity.read(tmp_path / "nowhere" / "identity.json")


def test_without_cryptography_one_sentence_says_what_to_install() -> None:
    program = """
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] == "cryptography" else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
import vesica.engines, vesica.experiment.post
from pathlib import Path
from vesica.errors import InputError
from vesica.engines.post.folder import DeskFolder
try:
    DeskFolder(Path(sys.argv[1])).create("bank")
except InputError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program, "nowhere-to-be"], capture_output=True, text=True, cwd="/tmp")
    assert run.stdout.strip() == "the post engine needs the package cryptography: pip install 'vesica[post]'", (
        run.stderr
    )
