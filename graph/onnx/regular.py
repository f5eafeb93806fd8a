"""Regular expressions in time proportional to the text, whatever they are: those of RE2, as onnxruntime has them.

Python's own look for a match by trying, and `(a+)+b` on forty letters keeps them trying for ever, which a file must
not be able to do. Here an expression is an automaton, whose states are made as texts ask for them. What no automaton
can do, references to groups and looking around, RE2 refuses too. Of several matches at a place the longest counts;
classes of words and digits are ASCII's.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ops.records import define, frozen
from ..importing.translation import Unmapped
from .expression_parser import Parsed, parsed

MOST_STATES = 10_000
"""States and transitions of an automaton, and how many sets of them are kept."""
MOST_STEPS = 20_000_000
"""Characters and states that are looked at for one text."""

BEGIN, NEWLINE, WORD, OTHER, END = range(5)
"""What an assertion may ask of the characters on both sides of it."""


def _kind(character: str) -> int:
    if character == "\n":
        return NEWLINE
    return WORD if character.isascii() and (character.isalnum() or character == "_") else OTHER


def holds(assertion: str, before: int, after: int) -> bool:
    """Whether an assertion holds between two characters."""
    if assertion in "bB":
        return ((before == WORD) != (after == WORD)) == (assertion == "b")
    return {
        "A": before == BEGIN,
        "^": before in (BEGIN, NEWLINE),
        "z": after == END,
        "$": after in (END, NEWLINE),
    }[assertion]


@frozen
class Node:
    """A state of an automaton.

    Attributes:
        takes: whether it takes a character; None for one that takes none.
        assertion: what must hold here; empty for nothing.
        after: the states after it; none for a match.
    """

    takes: Callable[[str], bool] | None
    assertion: str
    after: tuple[int, ...]


class _Building:
    """An automaton in the making, from its end to its beginning."""

    def __init__(self) -> None:
        self.nodes: list[Node] = [Node(None, "", ())]
        self._parts = 0

    def add(self, takes: Callable[[str], bool] | None, assertion: str, *after: int) -> int:
        self.nodes.append(Node(takes, assertion, after))
        return len(self.nodes) - 1

    def before(self, part: Parsed, after: int) -> int:
        """The state that a part begins with, which goes on to another one."""
        self._parts += 1  # those that take nothing are repeated as well
        if self._parts > MOST_STATES:
            raise Unmapped(f"a regular expression of more than {MOST_STATES:,} parts; repeat less in it")
        if part.kind == "character":
            return self.add(part.takes, "", after)
        if part.kind == "assertion":
            return self.add(None, part.assertion, after)
        if part.kind == "sequence":
            for one in reversed(part.parts):
                after = self.before(one, after)
            return after
        if part.kind == "choice":
            return self.add(None, "", *[self.before(one, after) for one in part.parts])
        inner, least, most = part.parts[0], part.least, part.most
        if most is None:
            place = self.add(None, "")  # knows what follows once that is made
            self.nodes[place] = Node(None, "", (self.before(inner, place), after))
            after = place
        else:
            end = after
            for _ in range(most - least):
                after = self.add(None, "", self.before(inner, after), end)
        for _ in range(least):
            after = self.before(inner, after)
        return after


@define(eq=False)
class Expression:
    """A regular expression, prepared.

    Attributes:
        nodes, start: the automaton.
        steps: characters that were looked at for the present text.
    """

    nodes: tuple[Node, ...]
    start: frozenset[int]
    steps: int
    _known: dict[tuple[frozenset[int], int, str], tuple[frozenset[int], bool]]

    def matches(self, text: str) -> bool:
        """Whether the whole text is a match.

        Raises:
            Unmapped: the text is too long.
        """
        self.steps = 0
        return self._longest(text, 0) == len(text)

    def found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where matches that are not empty begin and end, from left to right.

        Raises:
            Unmapped: it takes too long.
        """
        self.steps = 0
        place = 0
        while place < len(text):
            end = self._longest(text, place)
            if end > place:
                yield place, end
                place = end
            else:
                place += 1

    def _longest(self, text: str, place: int) -> int:
        """Where the longest match that begins at a place ends; -1 without one."""
        states, end = self.start, -1
        before, at = _kind(text[place - 1]) if place else BEGIN, place
        for at in range(place, len(text) + 1):
            character = text[at] if at < len(text) else ""
            states, matched = self._step(states, before, character)
            if matched:
                end = at
            if not states:
                break
            before = _kind(character)
        self.steps += at - place + 1
        self._check()
        return end

    def _check(self) -> None:
        if self.steps > MOST_STEPS:
            raise Unmapped(
                f"a regular expression that takes more than {MOST_STEPS:,} steps on one text; pass shorter texts"
            )

    def _step(self, states: frozenset[int], before: int, character: str) -> tuple[frozenset[int], bool]:
        """The states after a character, none at the end of the text, and whether those before it are a match."""
        key = (states, before, character)
        known = self._known.get(key)
        if known is not None:
            return known
        after = _kind(character) if character else END
        waiting, seen, there, matched = list(states), set(states), set[int](), False
        while waiting:
            node = self.nodes[waiting.pop()]
            if node.takes is not None:
                if character and node.takes(character):
                    there.update(node.after)
            elif not node.after:
                matched = True
            elif not node.assertion or holds(node.assertion, before, after):
                waiting += [one for one in node.after if one not in seen]
                seen.update(node.after)
        self.steps += len(seen)
        self._check()
        if len(self._known) >= MOST_STATES:
            self._known.clear()
        self._known[key] = result = frozenset(there), matched
        return result


def expression(text: str) -> Expression:
    """A regular expression.

    Raises:
        Unmapped: it is none of RE2's, or has too many states.
    """
    building = _Building()
    start = building.before(parsed(text), 0)
    return Expression(tuple(building.nodes), frozenset((start,)), 0, {})
