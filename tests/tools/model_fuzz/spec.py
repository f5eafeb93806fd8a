"""A drawn module as data: lines of Python with the shapes of their results, to be run and to be cut down."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

NAME = re.compile(r"\b(?:self\.[a-z]\d+|[vx]\d+)\b")
"""What lines call values, inputs, and what the module holds."""


@dataclass(frozen=True)
class Line:
    """One statement or several, which make one value.

    Attributes:
        out: name of the value.
        code: Python, with `self.m0` for modules, `self.p0` for parameters and `self.b0` for buffers.
        shape: of the value.
        writes: whether it writes to what others may read.
    """

    out: str
    code: str
    shape: tuple[int, ...]
    writes: bool = False

    @property
    def uses(self) -> set[str]:
        """Names that it reads."""
        return set(NAME.findall(self.code)) - {self.out}


@dataclass(frozen=True)
class Spec:
    """A module.

    Attributes:
        seed: of its weights and inputs.
        inputs: shapes, by name.
        held: modules, parameters and buffers: name → the expression that makes it.
        lines: of its forward.
        outputs: names of the values that it returns.
    """

    seed: int
    inputs: dict[str, tuple[int, ...]]
    held: dict[str, str] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    outputs: tuple[str, ...] = ()

    def source(self) -> str:
        """The module as Python."""
        made: list[str] = []
        for name, expression in self.held.items():
            if name.startswith("b"):
                made.append(f'self.register_buffer("{name}", {expression})')
            elif name.startswith("p"):
                made.append(f"self.{name} = nn.Parameter({expression})")
            else:
                made.append(f"self.{name} = {expression}")
        body = [part for line in self.lines for part in line.code.split("\n")]
        text = ["class Drawn(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        text += [f"        {one}" for one in made]
        text += ["", f"    def forward(self, {', '.join(self.inputs)}):"]
        text += [f"        {one}" for one in body]
        text += [f"        return {', '.join(self.outputs)},", ""]
        return "\n".join(text)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Of a value or an input."""
        if name in self.inputs:
            return self.inputs[name]
        return next(line.shape for line in self.lines if line.out == name)

    def needed(self) -> Spec:
        """Without what no output depends on. What writes in place stays."""
        wanted = set(self.outputs)
        kept: list[Line] = []
        for line in reversed(self.lines):
            if line.out in wanted or line.writes:
                kept.append(line)
                wanted |= line.uses
        inputs = {name: shape for name, shape in self.inputs.items() if name in wanted}
        held = {name: one for name, one in self.held.items() if f"self.{name}" in wanted}
        if not inputs:
            inputs = dict(list(self.inputs.items())[:1])
        return replace(self, inputs=inputs, held=held, lines=tuple(kept[::-1]))

    def cut(self, outs: set[str]) -> Spec:
        """With some values as inputs instead of what lines make."""
        lines = tuple(line for line in self.lines if line.out not in outs)
        fresh = {f"x{line.out[1:]}0": line for line in self.lines if line.out in outs}
        names = {line.out: name for name, line in fresh.items()}
        inputs = {**self.inputs, **{name: line.shape for name, line in fresh.items()}}
        return replace(self, inputs=inputs, lines=lines).renamed(names).needed()

    def without(self, out: str, instead: str) -> Spec:
        """With another value in the place of one."""
        lines = tuple(line for line in self.lines if line.out != out)
        return replace(self, lines=lines).renamed({out: instead}).needed()

    def renamed(self, names: dict[str, str]) -> Spec:
        """With other names for values."""

        def named(text: str) -> str:
            return NAME.sub(lambda found: names.get(found.group(), found.group()), text)

        lines = tuple(replace(line, code=named(line.code)) for line in self.lines)
        return replace(self, lines=lines, outputs=tuple(names.get(one, one) for one in self.outputs))

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {
            "seed": self.seed,
            "inputs": self.inputs,
            "held": self.held,
            "lines": [[one.out, one.code, one.shape, one.writes] for one in self.lines],
            "outputs": self.outputs,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Spec:
        """From a file."""
        return cls(
            seed=data["seed"],
            inputs={name: tuple(shape) for name, shape in data["inputs"].items()},
            held=dict(data["held"]),
            lines=tuple(Line(out, code, tuple(shape), writes) for out, code, shape, writes in data["lines"]),
            outputs=tuple(data["outputs"]),
        )


def elements(shape: tuple[int, ...]) -> int:
    """How many a tensor has."""
    return math.prod(shape)
