"""Hashing to Curve25519, and blinding."""

import builtins

import pytest

from vesica.alignment.curve import (
    PRIME,
    SIZE,
    blind,
    hash_to_curve,
    inverses,
    is_on_curve,
    is_square,
    map_to_curve,
)
from vesica.errors import InputError, ProtocolError

ONE, TWO = b"\x01" * SIZE, b"\x02" * SIZE
DIGESTS = b"".join(bytes([number]) * SIZE for number in range(50))


# RFC 9380, J.4.2 (curve25519_XMD:SHA-512_ELL2_NU_): u and the x of Q.
@pytest.mark.parametrize(
    ("element", "point"),
    [
        (
            0x608D892B641F0328523802A6603427C26E55E6F27E71A91A478148D45B5093CD,
            0x51125222DA5E763D97F3C10FCC92EA6860B9CCBBD2EB1285728F566721C1E65B,
        ),
        (
            0x46F5B22494BFEAA7F232CC8D054BE68561AF50230234D7D1D63D1D9ABECA8DA5,
            0x7D56D1E08CB0CCB92BAF069C18C49BB5A0DCD927EFF8DCF75CA921EF7F3E6EEB,
        ),
        (
            0x235FE40C443766CE7E18111C33862D66C3B33267EFA50D50F9E8E5D252A40AAA,
            0x3FBE66B9C9883D79E8407150E7C2A1C8680BEE496C62FABE4619A72B3CABE90F,
        ),
        (
            0x001E92A544463BDA9BD04DDBE3D6EED248F82DE32F522669EFC5DDCE95F46F5B,
            0x227E0BB89DE700385D19EC40E857DB6E6A3E634B1C32962F370D26F84FF19683,
        ),
    ],
)
def test_elligator_maps_as_in_the_standard(element: int, point: int) -> None:
    assert map_to_curve([element]) == [point]


def test_every_hash_is_on_the_curve_and_not_on_its_twist_and_stays_there() -> None:
    points = hash_to_curve(DIGESTS, run=b"run")
    for some in (points, blind(points, secret=ONE)):
        assert all(is_on_curve(u) for u in numbers(some))
    assert len(set(numbers(points))) == 50


def test_squares_are_told_by_euler_too() -> None:
    values = [*range(1, 200), *numbers(hash_to_curve(DIGESTS, run=b""))]
    assert [is_square(value) for value in values] == [pow(value, (PRIME - 1) // 2, PRIME) == 1 for value in values]


def test_all_inverses_are_found_at_once() -> None:
    assert inverses([]) == []
    assert inverses([2, 3, PRIME - 1]) == [pow(value, -1, PRIME) for value in (2, 3, PRIME - 1)]


def test_points_of_another_run_are_others() -> None:
    assert set(numbers(hash_to_curve(DIGESTS, run=b"a"))).isdisjoint(numbers(hash_to_curve(DIGESTS, run=b"b")))


def test_blinding_commutes_and_hides() -> None:
    points = hash_to_curve(DIGESTS, run=b"run")
    assert blind(blind(points, secret=ONE), secret=TWO) == blind(blind(points, secret=TWO), secret=ONE)
    assert len({*numbers(points), *numbers(blind(points, secret=ONE)), *numbers(blind(points, secret=TWO))}) == 150


@pytest.mark.parametrize("small", [0, 1, PRIME - 1, PRIME, PRIME + 1])
def test_a_point_of_small_order_is_refused(small: int) -> None:
    with pytest.raises(ProtocolError, match="small order"):
        blind(ONE + small.to_bytes(SIZE, "little"), secret=TWO)


def test_without_cryptography_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def hiding(name: str, *others: object, **more: object) -> object:
        if name.partition(".")[0] == "cryptography":
            raise ImportError(name)
        return original(name, *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", hiding)
    with pytest.raises(InputError, match=r"pip install 'vesica\[align\]'"):
        blind(ONE, secret=TWO)


def numbers(points: bytes) -> list[int]:
    return [int.from_bytes(points[start : start + SIZE], "little") for start in range(0, len(points), SIZE)]
