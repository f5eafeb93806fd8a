"""Draws modules line by line; each line is run at once, and one that fails or makes nothing of use is drawn again."""

from __future__ import annotations

import random
from typing import Any

import torch

from .layers import KINDS
from .spec import Line, Spec, elements

MOST_ELEMENTS = 20_000
STARTS = (
    *("N,C,H,H", "N,C,H,H", "N,C,H,W", "N,L,C", "N,L,C", "N,C", "N,C,D,H,H"),
    *("H,N,L,C", "L", "N,1,C", "1,C,H,W"),
)
"""Shapes of first inputs, by letters."""


class Draw:
    """A module under construction.

    Args:
        seed: of everything.

    Attributes:
        random: numbers that decide.
        values: name → tensor, as the lines so far make them.
        x: the value that a line is drawn for.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.held: dict[str, str] = {}
        self.lines: list[Line] = []
        self.values: dict[str, Any] = {}
        self.x = ""
        self.self = torch.nn.Module()
        self._fresh: list[str] = []
        self._scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "self": self.self}

    # --- what kinds of lines ask ---

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value that a line is drawn for."""
        return tuple(self.values[self.x].shape)

    def choice(self, *of: Any) -> Any:
        """One of several."""
        return self.random.choice(of)

    def axis(self, *, least: int = 1) -> int:
        """An axis of the value, of a certain size at least; sometimes counted from the end."""
        axes = [number for number, size in enumerate(self.shape) if size >= least]
        axis = self.random.choice(axes)
        return axis - len(self.shape) if self.random.random() < 0.5 else axis

    def axes(self) -> list[int]:
        """One or more axes of the value."""
        rank = len(self.shape)
        return sorted(self.random.sample(range(rank), self.random.randint(1, rank)))

    def hold(self, kind: str, expression: str) -> str:
        """A module (`m`), parameter (`p`) or buffer (`b`), new or now and then one that is there."""
        same = [name for name, one in self.held.items() if one == expression]
        if same and self.random.random() < 0.6:
            return f"self.{same[0]}"
        name = f"{kind}{len(self.held)}"
        made = eval(expression, self._scope)
        if kind == "p":
            made = torch.nn.Parameter(made)
        if kind == "b":
            self.self.register_buffer(name, made)
        else:
            setattr(self.self, name, made)
        self.held[name] = expression
        self._fresh.append(name)
        return f"self.{name}"

    def other(self, *, same: bool = False) -> str:
        """Another value that has the same shape, or broadcasts with it; the value itself if there is none."""
        fitting: list[str] = []
        for name, tensor in self.values.items():
            if name == self.x or tensor.dtype != torch.float32:
                continue
            if tuple(tensor.shape) == self.shape:
                fitting += [name] * 3
            elif not same:
                try:
                    both = torch.broadcast_shapes(tensor.shape, self.shape)
                except RuntimeError:
                    continue
                if elements(both) <= MOST_ELEMENTS:
                    fitting.append(name)
        return self.random.choice(fitting) if fitting else self.x

    def spread(self) -> tuple[int, ...]:
        """A shape that broadcasts with the value: of any rank, with ones here and there."""
        shape = [size if self.random.random() < 0.6 else 1 for size in self.shape]
        way = self.random.random()
        if way < 0.3:
            shape = shape[self.random.randint(0, len(shape)) :]
        elif way < 0.4 and len(shape) < 5:
            shape = [self.choice(1, 2), *shape]
        return tuple(shape)

    # --- drawing ---

    def module(self) -> Spec:
        """A module of 10 to 60 lines."""
        sizes = {
            **{
                "N": self.choice(1, 2, 3),
                "C": self.choice(1, 3, 4, 6, 8, 12),
                "H": self.random.randint(3, 12),
            },
            **{
                "W": self.random.randint(3, 12),
                "L": self.random.randint(2, 12),
                "D": self.random.randint(2, 5),
            },
        }
        for number in range(self.choice(1, 1, 2)):
            letters = self.choice(*STARTS).split(",")
            shape = tuple(sizes.get(letter, 1) for letter in letters)
            self.inputs[f"x{number}"] = shape
            generator = torch.Generator().manual_seed(self.seed + number)
            self.values[f"x{number}"] = torch.randn(shape, generator=generator)
        torch.manual_seed(self.seed)
        wanted = self.random.randint(10, 60)
        with torch.no_grad():
            for _ in range(wanted * 6):
                if len(self.lines) >= wanted:
                    break
                self._line()
        read = {name for line in self.lines for name in line.uses}
        ends = [line.out for line in self.lines if line.out not in read]
        last = [line.out for line in self.lines][-1:]
        outputs = tuple(dict.fromkeys([*ends[-3:], *last])) or ("x0",)
        spec = Spec(self.seed, self.inputs, self.held, tuple(self.lines), outputs)
        return spec.needed()

    def _line(self) -> None:
        names = list(self.values)
        # Mostly the latest, so that modules are deep.
        self.x = names[-1] if self.random.random() < 0.6 else self.random.choice(names[-8:])
        rank = len(self.shape)
        kinds = [(kind, weight) for kind, weight, ranks in KINDS if rank in ranks]
        kind = self.random.choices([one for one, _ in kinds], [weight for _, weight in kinds])[0]
        self._fresh = []
        out = f"v{len(self.lines)}"
        try:
            code = kind(self, self.x)
            writes = code.startswith("!")
            code = code.removeprefix("!")
            text = code.replace("OUT", out) if "OUT" in code else f"{out} = {code}"
            scope = {**self._scope, **self.values}
            exec(text, scope)
            made = scope[out]
            if not self._is_good(made):
                raise ValueError(out)
        except Exception:
            for name in self._fresh:
                del self.held[name]
                delattr(self.self, name)
            return
        self.values[out] = made
        self.lines.append(Line(out, text, tuple(made.shape), writes))

    def _is_good(self, made: Any) -> bool:
        """Whether a value is worth going on with."""
        if not isinstance(made, torch.Tensor) or made.dtype != torch.float32:
            return False
        if not 0 < made.numel() <= MOST_ELEMENTS or made.ndim > 6:
            return False
        if not bool(torch.isfinite(made).all()):
            return False
        return bool(1e-3 < made.abs().max() < 50)
