"""Regular expressions as texts, in parts: the syntax of RE2."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import NoReturn

from ...ops.records import frozen
from ...ops.values import format_value
from ..importing.translation import Unmapped

MOST_REPEATED = 1000
MOST_NESTED = 100
Takes = Callable[[str], bool]

LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
SETS = {"d": "0123456789", "s": "\t\n\f\r "}
NAMED = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\x00-\x7f",
    "blank": "\t ",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""Ranges of ASCII's classes, `[[:alpha:]]`."""
CATEGORIES: Mapping[str, str] = {
    "C": "cfos",
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}
"""General categories of Unicode: a letter, and what may stand behind it."""


@frozen
class Parsed:
    """A part of an expression.

    Attributes:
        kind: `character`, `assertion`, `sequence`, `choice` or `repeat`.
        takes: of a character.
        assertion: `A`, `z`, `^`, `$`, `b` or `B`.
        parts: what it is made of.
        least, most: how often what it repeats is there; None for any number.
    """

    kind: str
    takes: Takes | None = None
    assertion: str = ""
    parts: tuple[Parsed, ...] = ()
    least: int = 0
    most: int | None = None


def parsed(text: str) -> Parsed:
    """An expression in parts.

    Raises:
        Unmapped: it is none of RE2's.
    """
    parser = _Parser(text)
    made = parser.choice()
    if parser.place < len(text):
        parser.wrong("a bracket without its beginning")
    return made


def _ranges(text: str) -> Takes:
    """Whether a character is in ranges such as `a-z_`."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        last = place + 2 if text[place + 1 : place + 2] == "-" else place
        found.append((text[place], text[last]))
        place = last + 1
    return lambda character: any(low <= character <= high for low, high in found)


def _not(takes: Takes) -> Takes:
    return lambda character: not takes(character)


def _among(characters: str) -> Takes:
    return lambda character: character in characters


def _of_category(name: str) -> Takes:
    return lambda character: unicodedata.category(character).startswith(name)


def _either_case(takes: Takes) -> Takes:
    return lambda character: takes(character) or takes(character.lower()) or takes(character.upper())


class _Parser:
    """Reads an expression from left to right.

    Attributes:
        place: where it is.
        flags: those of `ims` that hold here.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.flags = frozenset[str]()
        self._nested = 0

    def wrong(self, what: str) -> NoReturn:
        """Says what RE2 does not take.

        Raises:
            Unmapped: always.
        """
        raise Unmapped(
            f"the regular expression {format_value(self.text)} has {what} at position {self.place}, which RE2, of "
            "which onnxruntime's expressions are, does not take"
        )

    def _next(self, token: str) -> bool:
        """Goes over a token if it is there."""
        there = self.text.startswith(token, self.place)
        self.place += len(token) if there else 0
        return there

    def _take(self) -> str:
        """The next character."""
        if self.place >= len(self.text):
            self.wrong("its end")
        self.place += 1
        return self.text[self.place - 1]

    def choice(self) -> Parsed:
        """Alternatives."""
        parts = [self._sequence()]
        while self._next("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Parsed("choice", parts=tuple(parts))

    def _sequence(self) -> Parsed:
        parts: list[Parsed] = []
        while self.place < len(self.text) and self.text[self.place] not in "|)":
            if self._next("\\Q"):
                quoted, _, _ = self.text[self.place :].partition("\\E")
                self.place = min(len(self.text), self.place + len(quoted) + 2)
                parts += [self._character(one) for one in quoted]
                if quoted:
                    parts.append(self._repeated(parts.pop()))
                continue
            atom = self._atom()
            if atom is not None:
                parts.append(self._repeated(atom))
        return Parsed("sequence", parts=tuple(parts))

    def _repeated(self, atom: Parsed) -> Parsed:
        repeated = False
        while True:
            counts = self._counts()
            if counts is None:
                return atom
            if repeated:
                self.wrong("a repetition of a repetition")
            self._next("?")  # fewer rather than more, which is the same where the longest counts
            atom = Parsed("repeat", parts=(atom,), least=counts[0], most=counts[1])
            repeated = True

    def _counts(self) -> tuple[int, int | None] | None:
        """How often what stands before is repeated; None where nothing says so."""
        for token, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._next(token):
                return counts
        if not self.text.startswith("{", self.place):
            return None
        inner, end, _ = self.text[self.place + 1 :].partition("}")
        least, comma, most = inner.partition(",")
        if not (
            end
            and least.isdecimal()
            and least.isascii()
            and (not most or (most.isdecimal() and most.isascii()))
        ):
            return None  # as it stands
        self.place += len(inner) + 2
        low = int(least[:9])
        high = (int(most[:9]) if most else None) if comma else low
        if max(low, high or 0) > MOST_REPEATED or (high is not None and high < low):
            self.wrong(f"a repetition {{{inner}}}")
        return low, high

    def _atom(self) -> Parsed | None:
        """A character, an assertion or a group; None for flags."""
        if self._counts() is not None:
            self.wrong("a repetition of nothing")
        token = self._take()
        if token == "(":
            return self._group()
        if token == "[":
            return Parsed("character", takes=self._class())
        if token == "\\":
            return self._escaped()
        if token == ".":
            return Parsed("character", takes=(lambda c: True) if "s" in self.flags else (lambda c: c != "\n"))
        if token in "^$":
            lines = "m" in self.flags
            return Parsed("assertion", assertion=token if lines else "A" if token == "^" else "z")
        return self._character(token)

    def _character(self, wanted: str) -> Parsed:
        return self._taken(lambda character: character == wanted)

    def _taken(self, takes: Takes) -> Parsed:
        return Parsed("character", takes=_either_case(takes) if "i" in self.flags else takes)

    def _group(self) -> Parsed | None:
        before = self.flags
        if self._next("?"):
            if self._next("P<") or (
                self.text.startswith("<", self.place)
                and self.text[self.place + 1 : self.place + 2] not in "=!"
            ):
                self._next("<")
                _, end, _ = self.text[self.place :].partition(">")
                if not end:
                    self.wrong("a name without its end")
                self.place = self.text.index(">", self.place) + 1
            elif self._changed_flags():
                return None
        self._nested += 1
        if self._nested > MOST_NESTED:
            self.wrong(f"more than {MOST_NESTED} brackets in each other")
        made = self.choice()
        self._nested -= 1
        if not self._next(")"):
            self.wrong("a bracket without its end")
        self.flags = before
        return made

    def _changed_flags(self) -> bool:
        """Takes flags of a group, or of what is left of the one around it; whether it is the latter."""
        on = True
        while True:
            token = self._take()
            if token == "-" and on:
                on = False
            elif token in "imsU":
                self.flags = self.flags | {token} if on else self.flags - {token}
            elif token in ":)":
                return token == ")"
            else:
                self.wrong(f"a group (?{token}")

    # --- characters ---

    def _escaped(self) -> Parsed:
        token = self._take()
        if token in "AzbB":
            return Parsed("assertion", assertion=token)
        takes = self._set(token)
        return self._taken(takes) if takes is not None else self._character(self._letter(token))

    def _set(self, token: str) -> Takes | None:
        """The class that an escaped letter stands for; None where it is none."""
        if token.lower() in SETS:
            takes = _among(SETS[token.lower()])
        elif token in "wW":
            takes = _ranges(NAMED["word"])
        elif token in "pP":
            takes = self._category()
        else:
            return None
        return _not(takes) if token.isupper() else takes

    def _category(self) -> Takes:
        name = self._take()
        if name == "{":
            name, end, _ = self.text[self.place :].partition("}")
            self.place += len(name) + len(end)
        wanted = name.removeprefix("^")
        if (
            not wanted
            or wanted[1:] not in ("", *CATEGORIES.get(wanted[0], ""))
            or wanted[0] not in CATEGORIES
        ):
            self.wrong(f"the class of characters {format_value(name)}, which is not known here,")
        return _of_category(wanted) if wanted == name else _not(_of_category(wanted))

    def _letter(self, token: str) -> str:
        """The character that an escaped one stands for."""
        if token in LETTERS:
            return LETTERS[token]
        if token == "x":
            digits = self._take()
            if digits == "{":
                digits, end, _ = self.text[self.place :].partition("}")
                self.place += len(digits) + len(end)
            else:
                digits += self._take()
            if not digits or len(digits) > 6 or any(one not in "0123456789abcdefABCDEF" for one in digits):
                self.wrong("an escaped number")
            if int(digits, 16) > 0x10FFFF:
                self.wrong("a character beyond Unicode")
            return chr(int(digits, 16))
        if token == "0":
            digits = "0"
            while len(digits) < 3 and self.text[self.place : self.place + 1] in tuple("01234567"):
                digits += self._take()
            return chr(int(digits, 8))
        if token.isalnum() and token.isascii():
            self.wrong(f"the escape \\{token}")
        return token

    def _class(self) -> Takes:
        """What stands between square brackets."""
        other = self._next("^")
        found: list[Takes] = []
        first = True
        while first or not self._next("]"):
            first = False
            if self._next("[:"):
                name, end, _ = self.text[self.place :].partition(":]")
                if not end or name.removeprefix("^") not in NAMED:
                    self.wrong(f"the class [:{name}:]")
                self.place += len(name) + 2
                takes = _ranges(NAMED[name.removeprefix("^")])
                found.append(_not(takes) if name.startswith("^") else takes)
                continue
            low = self._take()
            if low == "\\":
                low = self._take()
                takes = self._set(low)
                if takes is not None:
                    found.append(takes)
                    continue
                low = self._letter(low)
            found.append(self._range(low))
        if "i" in self.flags:
            found = [_either_case(takes) for takes in found]
        # Newlines are in what is not between the brackets.
        return lambda character: any(takes(character) for takes in found) != other

    def _range(self, low: str) -> Takes:
        """The characters from one on, up to another where that is said."""
        high = low
        rest = self.text[self.place : self.place + 2]
        if rest[:1] == "-" and rest[1:] not in ("", "]"):
            self.place += 1
            high = self._take()
            if high == "\\":
                high = self._letter(self._take())
        if high < low:
            self.wrong("a range that ends before it begins")
        return lambda character: low <= character <= high
