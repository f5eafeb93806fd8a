"""Formulas of elementwise updates: assignments as text, and what they are as operations on arrays, one after another.

`g = scale * gradient; first = 0.9 * first + 0.1 * g; update = first / (sqrt(abs(first)) + 1e-08)`, say: Python's own
syntax, of which there are names, numbers, `+ - * / **` and a few functions. What is made of numbers alone is a number.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from attrs import field

from .records import define, frozen

LONGEST = 2000
"""Characters of a formula."""
FUNCTIONS = {"sqrt": 1, "abs": 1, "sign": 1, "clip": 2, "maximum": 2, "minimum": 2}
"""How many arguments each takes. `sign` is 0 of NaN, and `clip(x, bound)` is `minimum(maximum(x, -bound), bound)`."""
OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
NUMBERS = ("rate", "scale", "step")
"""Names of what is one number."""
GIVEN = ("parameter", "gradient")
"""Names of arrays that a formula may only read."""
UPDATE = "update"
"""The name that a formula must give a value."""


class FormulaError(ValueError):
    """What is wrong with a formula, for an error of the op that has it."""


@frozen
class Call:
    """A function of terms."""

    function: str
    operands: tuple[Term, ...]


Term = float | str | Call
"""A number, a name, or a function of terms."""


@frozen
class Operation:
    """One function of NumPy, on arrays and numbers.

    Attributes:
        function: its name there.
        target: the array that it writes, by name, or by number where it is a temporary one.
        operands: arrays by name or number, and terms of numbers alone.
    """

    function: str
    target: str | int
    operands: tuple[str | int | Numeric, ...]


@frozen
class Numeric:
    """A term of numbers alone."""

    term: Term


@frozen(kw_only=True)
class Formula:
    """A formula as operations.

    Attributes:
        operations: that assign states and make the update.
        again: those that make the update once more, of the states as they are then.
        update: the array that holds it.
        temporaries: how many arrays beside those that are given.
    """

    operations: tuple[Operation, ...]
    again: tuple[Operation, ...]
    update: int
    temporaries: int


@lru_cache(maxsize=256)
def parsed(text: str, states: tuple[str, ...]) -> Formula:
    """A formula over `parameter`, `gradient`, NUMBERS and these states, which it may assign; `update` it must.

    Raises:
        FormulaError: it is none.
    """
    try:
        statements = list(_statements(text, states))
        writing = _Writing(states)
        for target, term in statements:
            writing.assign(target, term)
        update = writing.places.get(UPDATE)
        if not isinstance(update, int):
            raise FormulaError(f"it must assign '{UPDATE}', which times rate is taken off the parameter")
        again = writing.sliced(_behind(statements, states))
    except RecursionError:
        raise FormulaError("it is nested too deeply") from None
    return Formula(
        operations=tuple(writing.operations),
        again=again,
        update=update,
        temporaries=writing.temporaries,
    )


# --- from text to terms ----------------------------------------------------------------------------------


def _statements(text: str, states: Collection[str]) -> Iterator[tuple[str, Term]]:
    if len(text) > LONGEST:
        raise FormulaError(f"it must have at most {LONGEST} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, MemoryError) as error:
        raise FormulaError(f"it is no assignments such as 'update = scale * gradient': {error}") from None
    known = {*GIVEN, *NUMBERS, *states}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                if target in (*GIVEN, *NUMBERS):
                    raise FormulaError(f"'{target}' is given, and can't be assigned; take another name")
                yield target, _term(value, known)
                known.add(target)
            case _:
                raise FormulaError(
                    f"it must be assignments such as 'update = scale * gradient', got {ast.unparse(statement)!r}"
                )


def _term(node: ast.expr, known: Collection[str]) -> Term:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            try:
                return float(number)
            except OverflowError:
                raise FormulaError("it has a number that is too large") from None
        case ast.Name(id=name):
            if name not in known:
                raise FormulaError(
                    f"it reads '{name}', which has no value; it has {', '.join(sorted(known))}"
                )
            return name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Call("negative", (_term(operand, known),))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            return Call(OPERATORS[type(operator)], (_term(left, known), _term(right, known)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if FUNCTIONS.get(name) == len(
            arguments
        ):
            terms = tuple(_term(one, known) for one in arguments)
            if name == "clip":
                bound = terms[1]
                return Call("minimum", (Call("maximum", (terms[0], Call("negative", (bound,)))), bound))
            return Call(name, terms)
        case _:
            pass
    raise FormulaError(
        f"it has {ast.unparse(node)!r}; write names, numbers, + - * / ** and {', '.join(FUNCTIONS)}"
    )


def _names(term: Term) -> set[str]:
    if isinstance(term, Call):
        return set[str]().union(*map(_names, term.operands))
    return {term} if isinstance(term, str) else set()


def _behind(statements: list[tuple[str, Term]], states: Collection[str]) -> list[int] | None:
    """The statements that make the update of states as they are behind all; None where it needs former ones."""
    wanted, changed, found = {UPDATE}, set[str](), list[int]()
    for number in reversed(range(len(statements))):
        target, term = statements[number]
        if target in states:
            changed.add(target)
        elif target in wanted:
            if _names(term) & changed:
                return None
            wanted = (wanted - {target}) | _names(term)
            found.append(number)
    return found[::-1]


# --- from terms to operations ----------------------------------------------------------------------------


@define
class _Writing:
    """Operations in the making.

    Attributes:
        states: that may be assigned.
        places: names → what they are: an array by name or number, or a number.
        ends: how many operations there are behind each statement.
    """

    states: tuple[str, ...]
    places: dict[str, str | int | Numeric] = field(factory=dict[str, "str | int | Numeric"])
    operations: list[Operation] = field(factory=list[Operation])
    ends: list[int] = field(factory=lambda: [0])
    temporaries: int = 0
    _free: list[int] = field(factory=list[int])

    def __attrs_post_init__(self) -> None:
        self.places |= {name: name for name in (*GIVEN, *self.states)}
        self.places |= {name: Numeric(name) for name in NUMBERS}

    def assign(self, target: str, term: Term) -> None:
        state = target in self.states
        place = self._written(term, target if state else None)
        if isinstance(place, Numeric) and (state or target == UPDATE):
            raise FormulaError(f"'{target}' must be made of arrays, not of numbers alone")
        if state:
            if place != target:  # a name alone is no operation yet
                self._operate("positive", target, (place,))
        else:
            if isinstance(place, str) or (isinstance(place, int) and place in self.places.values()):
                place = self._operate("positive", self._fresh(), (place,))  # a value of its own
            self.places[target] = place
        self.ends.append(len(self.operations))

    def sliced(self, statements: list[int] | None) -> tuple[Operation, ...]:
        if statements is None:
            return ()
        return tuple(one for n in statements for one in self.operations[self.ends[n] : self.ends[n + 1]])

    def _written(self, term: Term, into: str | None) -> str | int | Numeric:
        """The place of a term's value, which is `into` where it takes an operation."""
        if isinstance(term, int | float):
            return Numeric(term)
        if isinstance(term, str):
            return self.places[term]
        operands = tuple(self._written(one, None) for one in term.operands)
        if all(isinstance(one, Numeric) for one in operands):
            return Numeric(Call(term.function, tuple(o.term for o in operands if isinstance(o, Numeric))))
        function = term.function
        if function == "power":
            if operands[1] != Numeric(2.0):
                raise FormulaError("an array has the power 2 alone; write other ones as products or sqrt")
            function, operands = "square", operands[:1]
        held = self.places.values()
        spare = {one for one in operands if isinstance(one, int) and one not in held}
        target = into if into is not None else min(spare, default=None)
        made = self._operate(function, self._fresh() if target is None else target, operands)
        self._free += spare - {made}
        return made

    def _operate(
        self, function: str, target: str | int, operands: tuple[str | int | Numeric, ...]
    ) -> str | int:
        self.operations.append(Operation(function, target, operands))
        return target

    def _fresh(self) -> int:
        if self._free:
            return self._free.pop()
        self.temporaries += 1
        return self.temporaries - 1
