"""Hashing to Curve25519, and blinding."""

import builtins

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vesica.alignment.curve import (
    PRIME,
    SIZE,
    A,
    blind,
    clear_cofactor,
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


# RFC 9380, J.4.2: the x of Q and of P, which is 8 Q.
@pytest.mark.parametrize(
    ("point", "cleared"),
    [
        (
            0x51125222DA5E763D97F3C10FCC92EA6860B9CCBBD2EB1285728F566721C1E65B,
            0x1BB913F0C9DAEFA0B3375378FFA534BDA5526C97391952A7789EB976EDFE4D08,
        ),
        (
            0x7D56D1E08CB0CCB92BAF069C18C49BB5A0DCD927EFF8DCF75CA921EF7F3E6EEB,
            0x7C22950B7D900FA866334262FCAEA47A441A578DF43B894B4625C9B450F9A026,
        ),
        (
            0x3FBE66B9C9883D79E8407150E7C2A1C8680BEE496C62FABE4619A72B3CABE90F,
            0x31AD08A8B0DEEB2A4D8B0206CA25F567AB4E042746F792F4B7973F3AE2096C52,
        ),
    ],
)
def test_the_cofactor_is_cleared_as_in_the_standard(point: int, cleared: int) -> None:
    assert numbers(clear_cofactor(written(point))) == [cleared]


# Points of order 1, 2, 4 and 8 of the curve and of its twist; the last two are of order 8.
SMALL = [
    0,
    1,
    PRIME - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]
Point = st.integers(2, PRIME - 2)


@settings(max_examples=50, deadline=None)
@given(Point, st.sampled_from(SMALL), st.binary(min_size=SIZE, max_size=SIZE))
def test_points_that_differ_by_one_of_small_order_are_one_with_the_cofactor_cleared_and_when_blinded(
    u: int, small: int, secret: bytes
) -> None:
    assume(is_on_curve(u) and u not in SMALL and is_on_curve(small))
    another = u_of_sum(u, small)
    assert another != u
    for function in (clear_cofactor, lambda points: blind(points, secret=secret)):
        first, second = numbers(function(written(u, another)))
        assert first == second


@settings(max_examples=50, deadline=None)
@given(st.lists(Point, min_size=2, max_size=6, unique=True), st.binary(min_size=SIZE, max_size=SIZE))
def test_points_become_equal_when_blinded_exactly_if_they_are_with_the_cofactor_cleared(
    some: list[int], secret: bytes
) -> None:
    assume(not set(some) & set(SMALL))
    points = written(*some, *(pow(u, -1, PRIME) for u in some))
    cleared, blinded = numbers(clear_cofactor(points)), numbers(blind(points, secret=secret))
    assert 0 not in cleared
    assert len(set(cleared)) == len(set(zip(cleared, blinded, strict=True))) == len(set(blinded))


@pytest.mark.parametrize("small", [*SMALL, PRIME, PRIME + 1])
def test_a_point_of_small_order_is_zeros_with_the_cofactor_cleared_and_no_other_is(small: int) -> None:
    assert [u == 0 for u in numbers(clear_cofactor(written(9, small, 10)))] == [False, True, False]


@pytest.mark.parametrize("small", [*SMALL, PRIME, PRIME + 1])
def test_a_point_of_small_order_is_refused(small: int) -> None:
    with pytest.raises(ProtocolError, match="small order"):
        blind(ONE + written(small), secret=TWO)


def test_without_cryptography_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def hiding(name: str, *others: object, **more: object) -> object:
        if name.partition(".")[0] == "cryptography":
            raise ImportError(name)
        return original(name, *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", hiding)
    with pytest.raises(InputError, match=r"pip install 'vesica\[align\]'"):
        blind(ONE, secret=TWO)


def u_of_sum(u: int, small: int) -> int:
    """The u-coordinate of a point of the curve plus another, by the textbook's formula with both coordinates."""
    slope = (v_of(u) - v_of(small)) * pow(u - small, -1, PRIME)
    return (slope * slope - A - u - small) % PRIME


def v_of(u: int) -> int:
    square = u * (u * u + A * u + 1) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    root = root if root * root % PRIME == square else root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert root * root % PRIME == square
    return root


def written(*values: int) -> bytes:
    return b"".join(value.to_bytes(SIZE, "little") for value in values)


def numbers(points: bytes) -> list[int]:
    return [int.from_bytes(points[start : start + SIZE], "little") for start in range(0, len(points), SIZE)]
