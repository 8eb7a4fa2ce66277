"""Points of Curve25519: digests of ids are hashed to them, and a secret scalar blinds them."""

import hashlib
from collections.abc import Sequence
from itertools import accumulate

from vesica.errors import InputError, ProtocolError

SIZE = 32  # bytes of a digest, of a secret, and of a point: its u-coordinate
PRIME = 2**255 - 19
A = 486662  # the curve is v^2 = u^3 + A u^2 + u
DOMAIN = b"vesica alignment 1 "


def hash_to_curve(digests: bytes, *, run: bytes) -> bytes:
    """A point for each digest, one after the other; nobody knows any one's logarithm to the base of another.

    A hash taken as a u-coordinate would lie on the curve or on its twist, and stay there however it is blinded: one
    bit of each id for all to see. Elligator 2 (RFC 9380, 6.7.1) always lands on the curve.
    """
    elements = [field_element(digests[start : start + SIZE], run) for start in range(0, len(digests), SIZE)]
    return b"".join(u.to_bytes(SIZE, "little") for u in map_to_curve(elements))


def field_element(digest: bytes, run: bytes) -> int:
    """The run is hashed in: points of one run say nothing about those of another."""
    return int.from_bytes(hashlib.sha512(DOMAIN + run + digest).digest(), "little") % PRIME


def map_to_curve(elements: Sequence[int]) -> list[int]:
    """Elligator 2: of -A / (1 + 2 r^2) and what is left to -A, exactly one is a u-coordinate of the curve."""
    candidates = [-A * inverse % PRIME for inverse in inverses([1 + 2 * r * r % PRIME for r in elements])]
    return [u if is_on_curve(u) else (-A - u) % PRIME for u in candidates]


def inverses(values: Sequence[int]) -> list[int]:
    """Modulo the prime, all with one inversion (Montgomery's trick); none is 0, as -1/2 is no square."""
    products = list(accumulate(values, lambda product, value: product * value % PRIME, initial=1))
    inverse = pow(products.pop(), -1, PRIME)
    found = []
    for value, before in zip(reversed(values), reversed(products), strict=True):
        found.append(inverse * before % PRIME)
        inverse = inverse * value % PRIME
    return found[::-1]


def is_on_curve(u: int) -> bool:
    """Whether u^3 + A u^2 + u is a square."""
    return is_square(u * (u * u + A * u + 1) % PRIME)


def is_square(value: int) -> bool:
    """By the Jacobi symbol, four times as fast as Euler's power."""
    top, bottom, sign = value, PRIME, 1
    while top:
        twos = (top & -top).bit_length() - 1
        top >>= twos
        if twos & 1 and bottom & 7 in (3, 5):
            sign = -sign
        if top & 3 == 3 and bottom & 3 == 3:
            sign = -sign
        top, bottom = bottom % top, top
    return sign == 1


def blind(points: bytes, *, secret: bytes) -> bytes:
    """Each point times the secret scalar; blinded by two parties it is the same in either order, as integers commute.

    X25519 makes the scalar a multiple of the cofactor, so that what comes out is in the group of prime order.
    """
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    key, read = X25519PrivateKey.from_private_bytes(secret), X25519PublicKey.from_public_bytes
    try:
        return b"".join(key.exchange(read(points[start : start + SIZE])) for start in range(0, len(points), SIZE))
    except ValueError as fault:  # the product is zero
        raise ProtocolError("a point is of small order, which no hash of an id is: the other side cheats") from fault


def clear_cofactor(points: bytes) -> bytes:
    """Multiply each point by the cofactor 8; a point of small order, which becomes infinity, is written as zeros.

    Points that differ by a point of small order (such as u and 1/u) are different points, and one point as soon as
    they are blinded, because X25519 multiplies by 8 too. Two points are equal here exactly if they are when blinded.
    Three doublings cost much less than blinding does.
    """
    values = [int.from_bytes(points[start : start + SIZE], "little") for start in range(0, len(points), SIZE)]
    fractions = [double(*double(*double(value % PRIME, 1))) for value in values]
    below = inverses([z or 1 for _, z in fractions])
    products = (x * inverse % PRIME if z else 0 for (x, z), inverse in zip(fractions, below, strict=True))
    return b"".join(u.to_bytes(SIZE, "little") for u in products)


def double(x: int, z: int) -> tuple[int, int]:
    """Double a point of the curve or its twist, its u-coordinate given as the fraction x / z; z is 0 for infinity."""
    xx, zz, xz = x * x % PRIME, z * z % PRIME, x * z % PRIME
    return (xx - zz) ** 2 % PRIME, 4 * xz * (xx + A * xz + zz) % PRIME


def require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as missing:
        raise InputError("private alignment needs the package cryptography: pip install 'vesica[align]'") from missing
