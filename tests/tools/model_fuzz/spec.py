"""A drawn module as data: lines of Python with the shapes of their results, to be run and to be cut down."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from .inputs import Input

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
        below: None where the value is of floating-point numbers; what its integers are below; 2 and `mask` of booleans.
        mask: whether they are booleans.
    """

    out: str
    code: str
    shape: tuple[int, ...]
    writes: bool = False
    below: int | None = None
    mask: bool = False

    @property
    def uses(self) -> set[str]:
        """Names that it reads."""
        return set(NAME.findall(self.code)) - {self.out}


@dataclass(frozen=True)
class Spec:
    """A module.

    Attributes:
        seed: of its weights and inputs.
        inputs: by name.
        held: modules, parameters and buffers: name → the expression that makes it.
        lines: of its forward.
        outputs: names of the values that it returns.
        dtype: of its floating-point numbers.
        context: what it is called in: `autocast`; else in inference `inference_mode`, `grad`, or nothing for no_grad.
        batches: sizes of the first axis of the inputs whose batch is open, in the order of calls; empty where none is.
        frozen: modules and parameters that need no gradient.
        still: inputs that need none.
    """

    seed: int
    inputs: dict[str, Input]
    held: dict[str, str] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    outputs: tuple[str, ...] = ()
    dtype: str = "float32"
    context: str = ""
    batches: tuple[int, ...] = ()
    frozen: tuple[str, ...] = ()
    still: tuple[str, ...] = ()

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
        head = [f"# {self.dtype}", self.context, self.batches and f"batches {self.batches}"]
        head += [
            self.frozen and f"frozen {', '.join(self.frozen)}",
            self.still and f"still {', '.join(self.still)}",
        ]
        text = [", ".join(one for one in head if one)]
        text += [f"# {name}: {one}" for name, one in self.inputs.items()]
        text += ["class Drawn(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        text += [f"        {one}" for one in made]
        text += ["", f"    def forward(self, {', '.join(self.inputs)}):"]
        text += [f"        {one}" for one in body]
        text += [f"        return {', '.join(self.outputs)},", ""]
        return "\n".join(text)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Of a value or an input."""
        if name in self.inputs:
            return self.inputs[name].shape
        return next(line.shape for line in self.lines if line.out == name)

    def needed(self) -> Spec:
        """Without what no output depends on. What writes in place stays."""
        wanted = set(self.outputs)
        kept: list[Line] = []
        for line in reversed(self.lines):
            if line.out in wanted or line.writes:
                kept.append(line)
                wanted |= line.uses
        for expression in reversed(self.held.values()):
            if any(f"self.{name}" in wanted for name, one in self.held.items() if one is expression):
                wanted |= set(NAME.findall(expression))
        inputs = {name: one for name, one in self.inputs.items() if name in wanted}
        held = {name: one for name, one in self.held.items() if f"self.{name}" in wanted}
        if not inputs:
            inputs = dict(list(self.inputs.items())[:1])
        frozen = tuple(name for name in self.frozen if name in held)
        still = tuple(name for name in self.still if name in inputs)
        return replace(self, inputs=inputs, held=held, lines=tuple(kept[::-1]), frozen=frozen, still=still)

    def cut(self, outs: set[str]) -> Spec:
        """With some values as inputs instead of what lines make."""
        lines = tuple(line for line in self.lines if line.out not in outs)
        fresh = {f"x{line.out[1:]}0": line for line in self.lines if line.out in outs}
        names = {line.out: name for name, line in fresh.items()}
        inputs = dict(self.inputs)
        for name, line in fresh.items():
            batched = bool(self.batches) and line.shape[:1] == self.batches[:1]
            inputs[name] = Input(line.shape, line.below, line.mask, batched=batched)
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
            "inputs": {name: one.to_json() for name, one in self.inputs.items()},
            "held": self.held,
            "lines": [[one.out, one.code, one.shape, one.writes, one.below, one.mask] for one in self.lines],
            "outputs": self.outputs,
            "dtype": self.dtype,
            "context": self.context,
            "batches": self.batches,
            "frozen": self.frozen,
            "still": self.still,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Spec:
        """From a file."""
        return cls(
            seed=data["seed"],
            inputs={name: Input.from_json(one) for name, one in data["inputs"].items()},
            held=dict(data["held"]),
            lines=tuple(Line(out, code, tuple(shape), *more) for out, code, shape, *more in data["lines"]),
            outputs=tuple(data["outputs"]),
            dtype=data["dtype"],
            context=data["context"],
            batches=tuple(data["batches"]),
            frozen=tuple(data["frozen"]),
            still=tuple(data["still"]),
        )
