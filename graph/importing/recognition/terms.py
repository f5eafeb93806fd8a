"""Formulas of one tensor x in one spelling: sums of products of x and of functions of such sums.

`0.5·x·(1 + erf(x / √2))` and `x·(0.5 + 0.5·erf(x·0.7071))` are the same two terms, `0.5·x` and `0.5·x·erf(0.7071·x)`.
Only what holds for real numbers and loses nothing where numbers are rounded is done to get there: no term is taken away
from another one, nothing is left out, however small, and no factor is so large or small that it could overflow where
the formula itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ....ops.records import frozen

MOST_TERMS = 8
"""Of a sum. The longest known spelling has four."""
SAME = 1e-12
"""How far coefficients in double precision may be from each other, as a part of themselves."""
FACTORS = 2.0**8
"""The largest factor, and the inverse of the smallest one."""


class Unreadable(Exception):  # noqa: N818 -- never leaves the recognition
    """A formula that is none of those that any known function has."""


@frozen
class Function:
    """A function of a sum, as a factor of a term.

    Attributes:
        name: `erf`, `exp`, `sigmoid`, `softplus`, `tanh`, `abs` or `clip`; `leaky` and `elu` of x itself.
        of: the sum.
        numbers: bounds of `clip`, the slope of `leaky`, the limit of `elu`.
    """

    name: str
    of: Sum
    numbers: tuple[float, ...] = ()


@frozen
class Product:
    """Powers of x and functions, multiplied.

    Attributes:
        power: of x.
        functions: sorted by what they are.
    """

    power: int = 0
    functions: tuple[Function, ...] = ()


@frozen
class Sum:
    """Terms: each product with its coefficient, in a fixed order."""

    terms: tuple[tuple[Product, float], ...]

    @classmethod
    def of(cls, terms: Mapping[Product, float]) -> Sum:
        """The sum of these terms.

        Raises:
            Unreadable: there are too many, or a coefficient is 0 or infinite.
        """
        if not 0 < len(terms) <= MOST_TERMS or not all(c and math.isfinite(c) for c in terms.values()):
            raise Unreadable
        return cls(tuple(sorted(terms.items(), key=lambda term: repr(term[0]))))

    def __add__(self, other: Sum) -> Sum:
        """Terms of both; a term is never taken away from another one, which rounding would not do."""
        found = dict(self.terms)
        for product, coefficient in other.terms:
            before = found.get(product, 0.0)
            if before * coefficient < 0:
                raise Unreadable
            found[product] = before + coefficient
        return Sum.of(found)

    def __mul__(self, other: Sum) -> Sum:
        """Each term of the one times each of the other."""
        for one in (self.number, other.number):
            if one is not None and not 1 / FACTORS <= abs(one) <= FACTORS:
                raise Unreadable
        found: dict[Product, float] = {}
        for a, first in self.terms:
            for b, second in other.terms:
                functions = tuple(sorted((*a.functions, *b.functions), key=repr))
                product = Product(a.power + b.power, functions)
                if product in found:  # (a + b)·(a − b) has fewer terms, and other roundings
                    raise Unreadable
                found[product] = first * second
        return Sum.of(found)

    @property
    def number(self) -> float | None:
        """The number that it is, if it is one."""
        ((product, coefficient), *more) = self.terms
        return coefficient if product == Product() and not more else None

    @property
    def function(self) -> tuple[Function, float] | None:
        """The one function that it is, and its coefficient."""
        ((product, coefficient), *more) = self.terms
        alone = not more and product.power == 0 and len(product.functions) == 1
        return (product.functions[0], coefficient) if alone else None

    @property
    def line(self) -> tuple[float, float] | None:
        """A and b of a·x + b, with a ≠ 0."""
        terms = dict(self.terms)
        slope, offset = terms.pop(Product(1), 0.0), terms.pop(Product(), 0.0)
        return (slope, offset) if slope and not terms else None


def number(value: float) -> Sum:
    """A number, as a sum."""
    return Sum.of({Product(): value})


def applied(name: str, of: Sum, *numbers: float) -> Sum:
    """A function of a sum, as a sum."""
    return Sum.of({Product(0, (Function(name, of, numbers),)): 1.0})


X = Sum.of({Product(1): 1.0})
ONE = number(1.0)


def same(a: float, b: float) -> bool:
    """Whether two coefficients are equal but for roundings in double precision."""
    return math.isclose(a, b, rel_tol=SAME)


def alike(a: Sum, b: Sum) -> bool:
    """Whether two sums are equal but for roundings of coefficients in double precision."""
    if len(a.terms) != len(b.terms):
        return False
    left = list(b.terms)
    for product, coefficient in a.terms:
        found = next((t for t in left if same(coefficient, t[1]) and _alike(product, t[0])), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _alike(a: Product, b: Product) -> bool:
    if a.power != b.power or len(a.functions) != len(b.functions):
        return False
    return all(
        one.name == other.name and one.numbers == other.numbers and alike(one.of, other.of)
        for one, other in zip(a.functions, b.functions, strict=True)
    )


def clipped(x: Sum, low: float, high: float) -> Sum:
    """Bounds on a sum; those of a sum that has some already become one pair, which is exact."""
    inner = x.function
    if inner is not None and inner[0].name == "clip" and inner[1] == 1:
        first, last = (min(max(bound, low), high) for bound in inner[0].numbers)
        return applied("clip", inner[0].of, first, last)
    return applied("clip", x, low, high)


def exponential(x: Sum) -> Sum | None:
    """The y of 1 + exp(y); None for another sum."""
    terms = dict(x.terms)
    if len(terms) != 2 or terms.pop(Product(), None) != 1:
        return None
    found = Sum.of(terms).function
    return found[0].of if found is not None and found[0].name == "exp" and found[1] == 1 else None


def negative(x: Sum) -> Sum:
    """−x."""
    return x * number(-1.0)


def inverse(x: Sum) -> Sum:
    """1 / x of a number, and of 1 + exp(y), which is sigmoid(−y).

    Raises:
        Unreadable: it is another sum.
    """
    if x.number is not None:
        return number(1 / x.number)
    power = exponential(x)
    if power is None:
        raise Unreadable
    return applied("sigmoid", negative(power))


def logarithm(x: Sum) -> Sum:
    """Log(1 + exp(y)), which is softplus(y).

    Raises:
        Unreadable: it is another sum.
    """
    power = exponential(x)
    if power is None:
        raise Unreadable
    return applied("softplus", power)


def added(a: Sum, b: Sum) -> Sum:
    """A sum, in which max(x, 0) + softplus(−|x|) is softplus(x)."""
    total = a + b
    relu, rest = Function("clip", X, (0.0, math.inf)), Function("softplus", negative(applied("abs", X)))
    terms = {product.functions[0] if product.functions else None: c for product, c in total.terms}
    if len(total.terms) == 2 and terms.keys() == {relu, rest} and terms[relu] == terms[rest]:
        return applied("softplus", X) * number(terms[relu]) if terms[relu] != 1 else applied("softplus", X)
    return total


def powers(x: Sum, exponent: float) -> Sum:
    """A small whole power, as a product.

    Raises:
        Unreadable: the exponent is another one.
    """
    if exponent not in (1, 2, 3, 4):
        raise Unreadable
    result = x
    for _ in range(int(exponent) - 1):
        result = result * x
    return result


def larger(values: Sequence[Sum]) -> Sum:
    """max(x, a·x) with 0 < a < 1, and max(x, −x).

    Raises:
        Unreadable: others.
    """
    slopes = sorted(line[0] if (line := one.line) is not None and not line[1] else math.nan for one in values)
    if slopes == [-1, 1]:
        return applied("abs", X)
    if slopes[-1] == 1 and 0 < slopes[0] < 1:
        return applied("leaky", X, slopes[0])
    raise Unreadable


def chosen(a: Sum, b: Sum) -> Sum:
    """What is x where x > 0, or x ≥ 0, and a·x with 0 < a < 1, or α·(exp(x) − 1), elsewhere.

    Raises:
        Unreadable: others.
    """
    if a != X:
        raise Unreadable
    line = b.line
    if line is not None:
        return larger((a, b))
    limit = dict(b.terms).get(Product(), 0.0)
    if limit < 0 and alike(b, (applied("exp", X) + number(-1.0)) * number(-limit)):
        return applied("elu", X, -limit)
    raise Unreadable
