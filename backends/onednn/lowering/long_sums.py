"""Sums of many numbers in parts: one f32 that all are added to loses digits of what is added, the more of them."""

from __future__ import annotations

import math

from ..plan.unfit import Unfit

LONGEST = 512
"""Numbers that are added up in one go, in sums of so many parts that a single one would lose digits."""
LANES = 8
"""Sums that kernels make at once of what lies one behind the other; 4 of them before AVX."""
SHORT = 1 << 12
"""Numbers whose sum keeps the digits that f32 has, but for three."""
BESIDE = 1 << 17
"""Numbers whose sum a weight gradient's kernel may make beside it: 4e-4 off at most, 1 % for two millions."""

PART = 128
"""Numbers of which a single f32 keeps all digits that matter: 1e-6 off at most, where they are alike."""

IN_A_LANE = 1 << 13
"""Numbers that one lane of a softmax's kernel adds up: 1e-4 off at most."""
LANES_OF = {"avx512": 16, "avx": 8, "sse41": 4}
"""Part of an implementation's name → the sums that it makes at once."""

PRODUCTS = 66_000
"""Products whose sum keeps digits enough in one f32."""


def check_products(count: int, largest: int) -> None:
    """Leaves products of integers to floating-point numbers where their sum may be none of 32 bits.

    Args:
        count: how many products are added up.
        largest: of the products.

    Raises:
        Unfit: they wrap.
    """
    if count * largest >= 1 << 31:
        raise Unfit(f"sums of {count} products of up to {largest} wrap in 32-bit integers")


def check_length(length: int) -> None:
    """Leaves sums to the host, which makes them in f64.

    Raises:
        Unfit: they are too long for one f32.
    """
    if length > SHORT:
        raise Unfit(f"a sum of {length} numbers in one f32 loses digits")


def check_row(length: int, implementation: str) -> None:
    """Leaves softmaxes of long rows to the host, which adds up in f64.

    Args:
        length: of a row.
        implementation: that would add it up in f32.

    Raises:
        Unfit: it is too long.
    """
    lanes = next((number for part, number in LANES_OF.items() if part in implementation), 1)
    if length > IN_A_LANE * lanes:
        raise Unfit(
            f"{implementation} adds up rows of {length} numbers in {lanes} of f32, which loses digits"
        )


def stages(length: int, lanes: int = 1) -> tuple[int, ...] | None:
    """Factors of `length`, so many of which are added up at a time: of the numbers, of their sums, and so on.

    Args:
        length: how many numbers there are.
        lanes: how many sums a kernel makes at once of what lies one behind the other.

    Returns:
        One factor where the sum is short; None where a long one has a prime factor that is too large.
    """
    if length <= SHORT * lanes:
        return (length,)
    longest, found = LONGEST * lanes, list[int]()
    while length > longest:
        factor = next((d for d in range(longest, 1, -1) if length % d == 0), None)
        if factor is None:
            return None
        found.append(factor)
        length //= factor
    return (*found, length)


def part_of(length: int, lanes: int) -> int | None:
    """The longest divisor of `length` of no more than `PART` numbers for each lane; a longer one, not a tiny one.

    Args:
        length: how many numbers are added up.
        lanes: sums that a kernel makes at once.
    """
    small = [part for part in range(1, math.isqrt(length) + 1) if length % part == 0]
    divisors = sorted({*small, *(length // part for part in small)})
    fitting = [part for part in divisors if lanes <= part <= PART * lanes]
    return max(fitting, default=None) or min(
        (p for p in divisors if lanes <= p <= SHORT * lanes), default=None
    )
