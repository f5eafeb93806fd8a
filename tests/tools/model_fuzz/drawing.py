"""Draws modules line by line; each line is run at once, and one that fails or makes nothing of use is drawn again."""

from __future__ import annotations

import copy
import math
import random
import re
from typing import Any

import torch

from . import functions
from .inputs import LAYOUTS, Input
from .spec import NAME, Line, Spec
from .table import KINDS

MOST_ELEMENTS = 20_000
STARTS = (
    *("N,C,H,H", "N,C,H,H", "N,C,H,W", "N,L,C", "N,L,C", "N,C", "N,C,D,H,H"),
    *("H,N,L,C", "L", "N,1,C", "1,C,H,W"),
)
"""Shapes of first inputs, by letters."""
BATCH = 13
"""An open batch while it is drawn: no other size is this one, so that it can be told from them in a line's text."""
SMALL = (2, 3, 5, 1, 7)
"""Sizes of a batch in other calls."""


class World:
    """What a module's values are with one type and one size of the batch.

    Args:
        dtype: of floating-point numbers.
        batch: size of an open batch.
    """

    def __init__(self, dtype: Any, batch: int | None) -> None:
        self.dtype = dtype
        self.batch = batch
        self.values: dict[str, Any] = {}
        self.holder = torch.nn.Module()
        self.scope = {
            **{"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "fn": functions},
            "self": self.holder,
        }

    def hold(self, name: str, made: Any) -> None:
        """Has a module, parameter or buffer of one's own."""
        made = copy.deepcopy(made)
        if isinstance(made, torch.nn.Module) or made.is_floating_point():
            made = made.to(self.dtype)
        if name.startswith("p"):
            made = torch.nn.Parameter(made)
        if name.startswith("b"):
            self.holder.register_buffer(name, made)
        else:
            setattr(self.holder, name, made)

    def run(self, out: str, text: str) -> Any:
        """What a line makes."""
        scope = {**self.scope, **self.values}
        exec(text, scope)
        return scope[out]

    def is_good(self, made: Any) -> bool:
        """Whether a value is worth going on with."""
        if not isinstance(made, torch.Tensor) or made.ndim > 6 or made.numel() > MOST_ELEMENTS:
            return False
        if not made.dtype.is_floating_point:
            return not made.dtype.is_complex and 0 < made.numel() <= 2000
        if made.dtype != self.dtype or not bool(torch.isfinite(made).all()):
            return False
        if self.batch == 0:
            return made.numel() == 0 or bool(made.abs().max() < 50)
        return made.numel() > 0 and bool(1e-3 < made.abs().max() < 50)


class Draw:
    """A module under construction.

    Args:
        seed: of everything.

    Attributes:
        random: numbers that decide.
        x: the value that a line is drawn for.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.inputs: dict[str, Input] = {}
        self.held: dict[str, str] = {}
        self.lines: list[Line] = []
        self.x = ""
        low = self.random.random()
        self.dtype = "bfloat16" if low < 0.06 else "float16" if low < 0.08 else "float32"
        self.batches: tuple[int, ...] = ()
        if self.random.random() < 0.25:
            others = self.random.sample(SMALL, 2)
            self.batches = (BATCH, *others[:1], 0) if self.random.random() < 0.12 else (BATCH, *others)
        dtype = getattr(torch, self.dtype)
        sizes = self.batches or (None,)
        self.worlds = [World(dtype, sizes[0]), World(torch.float64, sizes[0])]
        self.worlds += [World(dtype, size) for size in sizes[1:]]
        self._bounds: dict[str, int] = {}
        self._count = 0
        self._pending: dict[str, str | Input] = {}

    # --- what kinds of lines ask ---

    @property
    def values(self) -> dict[str, Any]:
        """Name → tensor, as the lines so far make them."""
        return self.worlds[0].values

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value that a line is drawn for."""
        return tuple(self.values[self.x].shape)

    @property
    def elements(self) -> int:
        """How many it has."""
        return math.prod(self.shape)

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
        name = f"{kind}{self._count}"
        self._count += 1
        self._pending[name] = expression
        return f"self.{name}"

    def input(
        self, shape: tuple[int, ...], *, below: int | None = None, mask: bool = False, fresh: float
    ) -> str:
        """An input of this kind: one that is there, or by some chance a new one; else a buffer."""
        one = Input(shape, below, mask, batched=bool(self.batches) and shape[:1] == (BATCH,))
        same = [name for name, other in self.inputs.items() if other == one]
        if same and self.random.random() < 0.6:
            return same[0]
        if self.random.random() > fresh or len(self.inputs) > 5:
            make = f"torch.randint(0, {below}, {list(shape)})" if below else f"torch.randn({list(shape)})"
            return self.hold("b", make + (".bool()" if mask else ""))
        name = f"x{self._count}"
        self._count += 1
        self._pending[name] = one
        return name

    def index(self, below: int | None = None) -> str:
        """An integer tensor of indices below a size."""
        below = below or self.random.randint(2, 5)
        shape = self.choice((self.random.randint(1, 4),), (2, 2), (3, 1), (self.shape or (1,))[:1])
        name = self.input(tuple(shape), below=below, fresh=0.5)
        self._bounds[name] = below
        return name

    def below(self, name: str) -> int:
        """What all numbers of such a tensor are below."""
        return self._bounds[name]

    def mask(self) -> str:
        """A boolean tensor that broadcasts with the value."""
        way = self.random.random()
        if way < 0.3:
            return self.hold("b", f"torch.rand({list(self.spread())}) < 0.4")
        if way < 0.6:
            return self.input(self.spread(), below=2, mask=True, fresh=0.6)
        fits = [name for name, one in self.values.items() if one.dtype == torch.bool and self._fits(one)]
        return self.random.choice(fits) if fits else f"({self.other()} > 0.1)"

    def other(self, *, same: bool = False) -> str:
        """Another value that has the same shape, or broadcasts with it; the value itself if there is none."""
        fitting: list[str] = []
        for name, tensor in self.values.items():
            if name == self.x or tensor.dtype != self.worlds[0].dtype:
                continue
            if tuple(tensor.shape) == self.shape:
                fitting += [name] * 3
            elif not same and self._fits(tensor):
                fitting.append(name)
        return self.random.choice(fitting) if fitting else self.x

    def _fits(self, tensor: Any) -> bool:
        try:
            both = torch.broadcast_shapes(tensor.shape, self.shape)
        except RuntimeError:
            return False
        return math.prod(both) <= MOST_ELEMENTS

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
        torch.manual_seed(self.seed)
        self._starts()
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
        if self.random.random() < 0.1:
            # One of the values amid the others, an input as it is, the same twice.
            outputs += (self.random.choice([*self.values, outputs[0]]),)
        return self._spec(outputs).needed()

    def _starts(self) -> None:
        sizes = {
            "N": BATCH if self.batches else 0 if self.random.random() < 0.015 else self.choice(1, 2, 3),
            "C": self.choice(1, 3, 4, 6, 8, 12),
            "H": self.random.randint(3, 12),
            "W": self.random.randint(3, 12),
            "L": self.random.randint(2, 12),
            "D": self.random.randint(2, 5),
        }
        starts = [one for one in STARTS if one.startswith("N")] if self.batches else STARTS
        if not sizes["N"]:
            for world in self.worlds:
                world.batch = 0
        for number in range(self.choice(1, 1, 2)):
            letters = self.choice(*starts).split(",")
            shape = tuple(sizes.get(letter, 1) for letter in letters)
            layout = self.choice(*LAYOUTS) if self.random.random() < 0.25 else ""
            self._input(f"x{number}", Input(shape, layout=layout, batched=bool(self.batches)))
        self._count = len(self.inputs)

    def _input(self, name: str, one: Input) -> None:
        self.inputs[name] = one
        for world in self.worlds:
            generator = torch.Generator().manual_seed(self.seed + int(name[1:]))
            batch = world.batch if self.batches else None
            world.values[name] = one.tensor(generator, world.dtype, batch)

    def _spec(self, outputs: tuple[str, ...]) -> Spec:
        some = self.random.random
        contexts = ("", "", "inference_mode", "grad", "grad")
        context = "autocast" if self.dtype == "float32" and some() < 0.06 else self.choice(*contexts)
        return Spec(
            self.seed,
            self.inputs,
            self.held,
            tuple(self.lines),
            outputs,
            dtype=self.dtype,
            context=context,
            batches=self.batches,
            frozen=tuple(name for name in self.held if name[0] in "mp" and some() < 0.3)
            if some() < 0.3
            else (),
            still=tuple(name for name in self.inputs if some() < 0.5) if some() < 0.4 else (),
        )

    def _line(self) -> None:
        names = [name for name, one in self.values.items() if one.dtype == self.worlds[0].dtype]
        # Mostly the latest, so that modules are deep.
        self.x = names[-1] if self.random.random() < 0.6 else self.random.choice(names[-8:])
        rank = len(self.shape)
        kinds = [(kind, weight) for kind, weight, ranks in KINDS if rank in ranks]
        kind = self.random.choices([one for one, _ in kinds], [weight for _, weight in kinds])[0]
        self._pending = {}
        kept = self._count
        out = f"v{len(self.lines)}"
        try:
            code = kind(self, self.x)
            writes = code.startswith("!")
            code = code.removeprefix("!")
            text = re.sub(r"\bOUT\b", out, code) if "OUT" in code else f"{out} = {code}"
            if self.batches:
                text = re.sub(rf"\b{BATCH}\b", "x0.shape[0]", text)
            used = self._take(text)
            made = [world.run(out, text) for world in self.worlds]
            good = all(world.is_good(one) for world, one in zip(self.worlds, made, strict=True))
            if not good or len({one.ndim for one in made}) > 1:
                raise ValueError(out)
        except Exception:
            self._count = kept
            return
        for world, one in zip(self.worlds, made, strict=True):
            world.values[out] = one
        for name in used:
            if isinstance(self._pending[name], str):
                self.held[name] = self._pending[name]
        below = None if made[0].dtype.is_floating_point else max(int(made[0].max()) + 1, 1)
        mask = made[0].dtype == torch.bool
        self.lines.append(Line(out, text, tuple(made[0].shape), writes, 2 if mask else below, mask))

    def _take(self, text: str) -> list[str]:
        """Makes what a line uses of what was asked for; gives its names in order."""
        used: set[str] = set()
        found = {name.removeprefix("self.") for name in NAME.findall(text)} & self._pending.keys()
        while found - used:
            used |= found
            of_these = [one for name in found if isinstance(one := self._pending[name], str)]
            found = {name.removeprefix("self.") for one in of_these for name in NAME.findall(one)}
            found &= self._pending.keys()
        ordered = sorted(used, key=lambda name: int(name[1:]))
        for name in ordered:
            one = self._pending[name]
            if isinstance(one, Input):
                self._input(name, one)
                continue
            made = eval(one, self.worlds[0].scope)
            for world in self.worlds:
                world.hold(name, made)
        return ordered
