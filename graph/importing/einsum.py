"""Einstein sums in ops of oneDNN Graph: axes moved and joined, one product of matrices for each pair of operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from string import ascii_letters

from ...ops.records import frozen
from .expressions import reduce, reshape, transpose
from .translation import Translation, Unmapped, Value, sizes


@frozen(eq=False)
class _Labelled:
    """A value with a letter for each axis."""

    value: Value
    labels: str


def einsum(t: Translation, equation: str, values: Sequence[Value]) -> Value:
    """The sum that `equation` says, as `bij,bjk->bik`, or `...ij,...jk->...ik`.

    Raises:
        Unmapped: a letter twice in one operand, or sizes that contradict each other.
    """
    equation = _spelled_out(equation.replace(" ", ""), values)
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if "." in equation or len(terms) != len(values):
        raise Unmapped(f"the equation {equation!r} for {len(values)} operands; each axis must have a letter")
    wanted = right if arrow else "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    known: dict[str, int] = {}
    operands: list[_Labelled] = []
    for term, value in zip(terms, values, strict=True):
        shape = sizes(value)
        if len(set(term)) != len(term) or len(term) != len(shape):
            raise Unmapped(f"the term {term!r} for {len(shape)} axes; each must have a letter of its own")
        for letter, size in zip(term, shape, strict=True):
            if known.setdefault(letter, size) != size:
                raise Unmapped(f"axis {letter!r} has {known[letter]} elements here and {size} there")
        operands.append(_Labelled(value, term))
    if len(set(wanted)) != len(wanted) or not set(wanted) <= set(known):
        raise Unmapped(f"the result {wanted!r}; each letter must be one of an operand, once")
    result = _only(t, operands[0], wanted + "".join(terms[1:]))
    for number, other in enumerate(operands[1:], 1):
        rest = wanted + "".join(terms[number + 1 :])
        other = _only(t, other, rest + result.labels)
        result = _product(t, _only(t, result, rest + other.labels), other, rest, known)
    return _ordered(t, _only(t, result, wanted), wanted)


def _spelled_out(equation: str, values: Sequence[Value]) -> str:
    """An equation with letters for the axes that an ellipsis stands for, of which the last one is the same in all."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if "..." not in equation or len(terms) != len(values) or (arrow and "..." not in right):
        return equation
    free = [letter for letter in ascii_letters if letter not in equation]
    counts = [
        len(sizes(value)) - len(term.replace("...", "")) if "..." in term else 0
        for term, value in zip(terms, values, strict=True)
    ]
    if not 0 <= min(counts) <= max(counts) <= len(free):
        return equation
    letters = ["".join(free[max(counts) - count : max(counts)]) for count in counts]
    longest = "".join(free[: max(counts)])
    spelled = [term.replace("...", own) for term, own in zip(terms, letters, strict=True)]
    if not arrow:  # the letters of an ellipsis come first, then those that are there once
        bare = left.replace("...", "").replace(",", "")
        return (
            ",".join(spelled) + "->" + longest + "".join(sorted(c for c in set(bare) if bare.count(c) == 1))
        )
    return ",".join(spelled) + "->" + right.replace("...", longest)


def _only(t: Translation, x: _Labelled, needed: str) -> _Labelled:
    """Without the axes that nobody needs: they are summed over."""
    gone = [axis for axis, letter in enumerate(x.labels) if letter not in needed]
    if not gone:
        return x
    labels = "".join(letter for letter in x.labels if letter in needed)
    return _Labelled(reduce(t, "ReduceSum", x.value, gone, keep=False), labels)


def _ordered(t: Translation, x: _Labelled, labels: str) -> Value:
    """With the axes in this order."""
    return transpose(t, x.value, [x.labels.index(letter) for letter in labels])


def _product(t: Translation, a: _Labelled, b: _Labelled, needed: str, size: Mapping[str, int]) -> _Labelled:
    """The product of two operands, summed over the axes that both have and nobody needs."""
    shared = [letter for letter in a.labels if letter in b.labels]
    batch = "".join(letter for letter in shared if letter in needed)
    summed = "".join(letter for letter in shared if letter not in needed)
    rows = "".join(letter for letter in a.labels if letter not in shared)
    columns = "".join(letter for letter in b.labels if letter not in shared)
    # A matrix that lies transposed is taken as it lies.
    turned = {
        "transpose_a": bool(summed and rows) and a.labels == batch + summed + rows,
        "transpose_b": bool(summed and columns) and b.labels == batch + columns + summed,
    }
    first = (summed, rows) if turned["transpose_a"] else (rows, summed)
    second = (columns, summed) if turned["transpose_b"] else (summed, columns)
    product = t.op(
        "MatMul", _matrices(t, a, batch, first, size), _matrices(t, b, batch, second, size), **turned
    )
    labels = batch + rows + columns
    return _Labelled(reshape(t, product, [size[letter] for letter in labels]), labels)


def _matrices(
    t: Translation, x: _Labelled, batch: str, sides: tuple[str, str], size: Mapping[str, int]
) -> Value:
    """A stack of matrices: the batch as it is, and the letters of each side as one axis."""
    moved = _ordered(t, x, batch + "".join(sides))
    joined = [math.prod(size[letter] for letter in side) for side in sides]
    return reshape(t, moved, [*(size[letter] for letter in batch), *joined])
