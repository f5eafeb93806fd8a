"""Attributes of ops: what a schema says of one, and how a user's value becomes canonical.

Canonical values are immutable: `int`, `float`, `bool`, `str`, or tuples of `int` or `float`. The type
names are oneDNN Graph's (`s64`, `s64[]`, `f32`, `f32[]`, `bool`, `string`).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, cast

from attrs import field

from .data_types import parse_enum
from .errors import (
    AttributeTypeError,
    AttributeValueError,
    SchemaError,
    UnknownAttributeError,
    nearest,
)
from .hints import argument_hint
from .records import frozen
from .values import check_identifier, format_value, integer, listed

AttributeValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...]

S64_MIN, S64_MAX = -(2**63), 2**63 - 1
MAX_RANK = 12
"""oneDNN's limit on the number of dimensions; its schemas write "unset" as so many zeros or ones."""


class AttributeType(StrEnum):
    """Value types, as oneDNN Graph's documents and JSON files write them."""

    s64 = "s64"
    s64_list = "s64[]"
    f32 = "f32"
    f32_list = "f32[]"
    bool = "bool"
    string = "string"


class ValueRule(Protocol):
    """A rule on one scalar of a value: `describe` completes the sentence "must be …"."""

    @property
    def describe(self) -> str: ...

    def canonical(self, value: Any) -> Any:
        """The canonical form of `value`, or None where the rule forbids it."""
        ...


@frozen
class AtLeast:
    """An integer or float of at least `minimum`."""

    minimum: int

    @property
    def describe(self) -> str:
        return {0: "non-negative", 1: "positive"}.get(self.minimum, f"at least {self.minimum}")

    def canonical(self, value: Any) -> Any:
        return value if value >= self.minimum else None


@frozen
class Within:
    """An integer of a range, both ends included."""

    lowest: int
    highest: int

    @property
    def describe(self) -> str:
        return f"between {self.lowest} and {self.highest}"

    def canonical(self, value: Any) -> Any:
        return value if self.lowest <= value <= self.highest else None


def _in_f32(value: float) -> float:
    """What becomes of a number in f32, the type that the ops compute in."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


@frozen
class Finite:
    """A float of at least `minimum` that is finite in f32."""

    minimum: float = -math.inf

    @property
    def describe(self) -> str:
        return "finite" if self.minimum == -math.inf else f"finite and at least {self.minimum:g}"

    def canonical(self, value: Any) -> Any:
        return value if self.minimum <= value and math.isfinite(_in_f32(value)) else None


@frozen
class Above:
    """A float that is finite and above `bound` in f32."""

    bound: float

    @property
    def describe(self) -> str:
        return f"finite and above {self.bound:g}"

    def canonical(self, value: Any) -> Any:
        return value if self.bound < _in_f32(value) < math.inf else None


@frozen
class OneOf:
    """A string out of a list; with `any_case` the letter case does not matter."""

    values: tuple[str, ...]
    any_case: bool = False

    @property
    def describe(self) -> str:
        return "one of " + ", ".join(repr(v) for v in self.values)

    def canonical(self, value: Any) -> Any:
        if value in self.values:
            return value
        if self.any_case:
            return {v.casefold(): v for v in self.values}.get(str(value).casefold())
        return None


POSITIVE = AtLeast(1)
NON_NEGATIVE = AtLeast(0)
ABOVE_ZERO = Above(0)
FINITE = Finite()


def _attribute_type(value: AttributeType | str) -> AttributeType:
    return parse_enum(AttributeType, value, "an attribute's type")


@frozen
class AttributeSpec:
    """One attribute of an op.

    Attributes:
        name: oneDNN Graph's name.
        type: value type.
        required: whether an op without it is an error.
        default: the canonical value of an attribute that is not given; None means "unset".
        rule: the rule on the value, or on each element of a list.
        unset_as: twelve of this integer mean "unset", as in the defaults of oneDNN's own schemas; None for no such.
        none_as: what `None` stands for where Python users write it (`auto_pad=None`).
        doc: one sentence.
    """

    name: str
    type: AttributeType = field(converter=_attribute_type)
    required: bool = field(default=False, kw_only=True)
    default: AttributeValue | None = field(default=None, kw_only=True)
    rule: ValueRule | None = field(default=None, kw_only=True)
    unset_as: int | None = field(default=None, kw_only=True)
    none_as: AttributeValue | None = field(default=None, kw_only=True)
    doc: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_identifier(self.name, "an attribute's name", "axis")
        if self.rule is not None and not hasattr(self.rule, "canonical"):
            raise SchemaError(
                f"the rule of attribute '{self.name}' must be a rule such as POSITIVE or OneOf, "
                f"got {format_value(self.rule)}"
            )

    @property
    def expects(self) -> str:
        """What a value must be, in words: "a list of positive s64 values"."""
        described = f"{self.rule.describe} " if self.rule and not isinstance(self.rule, OneOf) else ""
        match self.type:
            case AttributeType.s64_list | AttributeType.f32_list:
                return f"a list of {described}{self.type.removesuffix('[]')} values"
            case AttributeType.string if isinstance(self.rule, OneOf):
                return self.rule.describe
            case AttributeType.string:
                return "a string"
            case AttributeType.bool:
                return "True or False"
            case _:
                return f"{'a' if described else 'an'} {described}{self.type} value"


def _snapshot(values: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
    """A copy that nobody else can change."""
    return dict(values)


@frozen
class Attributes(Mapping[str, AttributeValue]):
    """Canonical attributes of one op, with typed access. Unset optional attributes are absent."""

    _values: Mapping[str, AttributeValue] = field(converter=_snapshot)

    def __getitem__(self, name: str) -> AttributeValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integers(self, name: str) -> tuple[int, ...]:
        """The s64 list `name`; KeyError when it is unset."""
        return cast("tuple[int, ...]", self._values[name])

    def integer(self, name: str) -> int:
        """The s64 value `name`; KeyError when it is unset."""
        return cast("int", self._values[name])

    def real(self, name: str) -> float:
        """The f32 value `name`; KeyError when it is unset."""
        return cast("float", self._values[name])

    def reals(self, name: str) -> tuple[float, ...]:
        """The f32 list `name`; KeyError when it is unset."""
        return cast("tuple[float, ...]", self._values[name])

    def flag(self, name: str) -> bool:
        """The bool `name`; KeyError when it is unset."""
        return cast("bool", self._values[name])

    def string(self, name: str) -> str:
        """The string `name`; KeyError when it is unset."""
        return cast("str", self._values[name])


def canonical_value(spec: AttributeSpec, value: object, op: str, name: str) -> AttributeValue | None:
    """`value` as `spec` wants it; None when it means "unset".

    Args:
        spec: the attribute's specification.
        value: what the user gave.
        op: how messages name the op.
        name: how the user spells the attribute.

    Raises:
        AttributeTypeError: the Python type is wrong.
        AttributeValueError: a rule, the s64 range or the set of names is broken.
    """
    if value is None:
        if spec.none_as is not None:
            return spec.none_as
        if spec.required:
            raise AttributeTypeError(f"{op}: attribute '{name}' must be {spec.expects}, got None")
        return spec.default
    if spec.type in (AttributeType.s64_list, AttributeType.f32_list):
        items = tuple(_scalar(spec, item, op, name, value) for item in _listed(spec, value, op, name))
        if spec.unset_as is not None and items == (spec.unset_as,) * MAX_RANK:
            return spec.default
        return cast("AttributeValue", tuple(_ruled(spec, item, op, name, value) for item in items))
    return _ruled(spec, _scalar(spec, value, op, name, value), op, name, value)


_NONE: Mapping[str, str] = {}


def canonical_attributes(
    specs: Sequence[AttributeSpec],
    given: Mapping[str, object],
    op: str,
    spell: Callable[[str], str] = lambda name: name,
    elsewhere: Mapping[str, str] = _NONE,
) -> Attributes:
    """All attributes of an op, checked, with defaults filled in.

    Args:
        specs: the schema's attributes.
        given: the user's values under the names that the user wrote.
        op: how messages name the op.
        spell: from a schema's name to the name that the user's op kind has for it.
        elsewhere: from the names that other spellings of the op have to the schema's, for a hint.

    Raises:
        UnknownAttributeError: an attribute that the op has not.
        AttributeValueError: a missing attribute, or see `canonical_value`.
        AttributeTypeError: see `canonical_value`.
    """
    by_spelling = {spell(spec.name): spec for spec in specs}
    for name in given:
        if name not in by_spelling:
            # A legacy kind has its own words for some attributes.
            same = spell(elsewhere.get(name, name))
            hint = f" (did you mean '{same}'?)" if same in by_spelling else argument_hint(name, by_spelling)
            raise UnknownAttributeError(
                f"{op}: unknown attribute {format_value(name)}{hint}; "
                f"it has {', '.join(sorted(by_spelling)) or 'no attributes'}"
            )
    missing = {name: spec for name, spec in by_spelling.items() if spec.required and name not in given}
    if len(missing) == 1:
        [(name, spec)] = missing.items()
        raise AttributeValueError(f"{op}: required attribute '{name}' is missing; give {spec.expects}")
    if missing:
        told = [f"'{name}' ({spec.expects})" for name, spec in missing.items()]
        raise AttributeValueError(
            f"{op}: required attributes {', '.join(told[:-1])} and {told[-1]} are missing; give them"
        )
    values: dict[str, AttributeValue] = {}
    for name, spec in by_spelling.items():
        value = canonical_value(spec, given[name], op, name) if name in given else spec.default
        if value is not None:
            values[spec.name] = value
    return Attributes(values)


def _listed(spec: AttributeSpec, value: object, op: str, name: str) -> Sequence[object]:
    items = listed(value)
    if items is None:
        hint = (
            "; write it as [1, 1], say" if hasattr(value, "__index__") or hasattr(value, "__float__") else ""
        )
        raise AttributeTypeError(
            f"{op}: attribute '{name}' must be {spec.expects}, "
            f"got {format_value(value)} of type {type(value).__name__}{hint}"
        )
    return items


def _scalar(spec: AttributeSpec, value: object, op: str, name: str, whole: object) -> Any:
    """`value` as a plain Python scalar of the spec's element type."""

    def wrong_type() -> AttributeTypeError:
        inside = "" if value is whole else f"{format_value(whole)} with the element "
        return AttributeTypeError(
            f"{op}: attribute '{name}' must be {spec.expects}, "
            f"got {inside}{format_value(value)} of type {type(value).__name__}"
        )

    is_bool = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    match spec.type:
        case AttributeType.bool:
            if not is_bool:
                raise wrong_type()
            return bool(value)
        case AttributeType.string:
            if not isinstance(value, str):
                raise wrong_type()
            return str(value)
        case AttributeType.s64 | AttributeType.s64_list:
            number = integer(value)
            if number is None:
                raise wrong_type()
            if not S64_MIN <= number <= S64_MAX:
                raise AttributeValueError(
                    f"{op}: attribute '{name}' must fit in 64 bits, got {format_value(number)}; give a smaller one"
                )
            return number
        case _:
            if is_bool or isinstance(value, str | bytes | type) or not hasattr(value, "__float__"):
                raise wrong_type()
            try:
                real = float(cast("float", value))
            except (TypeError, ValueError, OverflowError, RuntimeError):
                raise wrong_type() from None
            if math.isnan(real):
                raise AttributeValueError(
                    f"{op}: attribute '{name}' must be {spec.expects}, got {format_value(whole)}, which is no number"
                )
            return real


def _spelled_out(value: object, known: Sequence[str]) -> str:
    """A hint for formats with every spatial axis written out, as in other frameworks: NCHW, OIDHW, NLC."""
    if not isinstance(value, str) or not known:
        return ""
    folded = re.sub("[DHWL]+", "X", value.upper())
    letters = {"O", "I", "X"} if "O" in folded else {"N", "C", "X"}
    if folded in known and set(folded) == letters:
        return f" (X stands for all spatial axes: write '{folded}')"
    return ""


def _ruled(spec: AttributeSpec, value: Any, op: str, name: str, whole: object) -> Any:
    if spec.rule is None:
        return value
    canonical = spec.rule.canonical(value)
    if canonical is None:
        known = spec.rule.values if isinstance(spec.rule, OneOf) else ()
        raise AttributeValueError(
            f"{op}: attribute '{name}' must be {spec.expects}, got {format_value(whole)}"
            f"{_spelled_out(value, known) or nearest(value, known)}"
        )
    return canonical
