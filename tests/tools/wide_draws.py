"""Sizes beyond those of small problems, where kernels cut their work another way.

Wide channels on small images, few channels on large ones, long axes, large batches, long taps and many groups; for
`fuzz_primitives.py`, `fuzz_kernels.py` and `graph_fuzz`. What is drawn fits into a number of elements, so that the
time of a trial stays bounded.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SHARE = 0.25
"""Part of the problems that are wide."""
CHANNELS = (
    96,
    127,
    128,
    144,
    192,
    255,
    256,
    320,
    384,
    512,
    513,
    576,
    768,
    1000,
    1024,
    1280,
    1536,
    2047,
    2048,
)
DEEP = tuple(c for c in CHANNELS if c >= 512)
"""Where kernels begin to take the channels in parts."""
LENGTHS = (768, 1000, 1024, 4096, 4099, 10_007, 50_000, 100_003)
"""Of one axis that is normalized, summed or copied."""
INNER = (255, 256, 384, 512, 513, 768, 1000, 1024, 1536, 2048, 3072, 4096, 4100, 8192)
"""Of what products add up."""
ELEMENTS = 1 << 18
"""Most of one tensor."""
WEIGHTS = 1 << 21
"""Most of one tensor of weights."""
MANY_WEIGHTS = 1 << 18
"""More than the second-level cache holds, so that kernels take the taps in parts."""
WINDOWS = 1 << 22
"""Most elements of all windows of a problem."""
PRODUCTS = 1 << 27
"""Most products of a problem."""
ATTEMPTS = 500

Axis = tuple[int, int, int, int, int, int, int]
"""Kernel, stride, dilation, pads before and behind, size of source and destination, along one axis."""


@dataclass(frozen=True)
class Window:
    """Sizes of a convolution.

    Attributes:
        kind: what is large.
        batch, groups: as they are.
        rows, columns: channels of a group on the side with the windows, and on the other.
        axes: along each spatial axis.
    """

    kind: str
    batch: int
    groups: int
    rows: int
    columns: int
    axes: tuple[Axis, ...]


def shape(rng: random.Random, rank: int, most: int = ELEMENTS) -> tuple[int, ...]:
    """A shape with something long in it: channels, another axis, the image, or the batch."""
    if rank == 1:
        return (rng.choice([n for n in LENGTHS if n <= most]),)
    while True:
        kind = rng.choice(["channels", "channels", "axis", "image", "batch"])
        made = [rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3, 5, 8, 16, 17])]
        made += [rng.choice([1, 1, 2, 3, 4, 5, 7, 8]) for _ in range(rank - 2)]
        if kind == "channels":
            made[1] = rng.choice(CHANNELS)
        elif kind == "axis":
            made[rng.randrange(rank)] = rng.choice(LENGTHS)
        elif kind == "image":
            made[2:] = [rng.choice([28, 56, 112, 200, 224]) for _ in made[2:]]
        else:
            made[0] = rng.choice([64, 100, 128, 257, 512])
        if math.prod(made) <= most:
            return tuple(made)


def product(rng: random.Random) -> tuple[int, int, int]:
    """Rows, inner and columns of a matrix product."""
    while True:
        kind = rng.choice(["inner", "inner", "columns", "rows", "all"])
        rows, columns = (rng.choice([1, 1, 2, 3, 7, 16, 17, 33, 64, 100]) for _ in range(2))
        inner = rng.choice([1, 3, 16, 31, 64, 100])
        if kind in ("inner", "all"):
            inner = rng.choice(INNER)
        if kind in ("columns", "all"):
            columns = rng.choice(INNER)
        if kind in ("rows", "all"):
            rows = rng.choice(INNER)
        if (
            inner * max(rows, columns) <= WEIGHTS
            and rows * columns <= ELEMENTS
            and rows * inner * columns <= PRODUCTS
        ):
            return rows, inner, columns


def axis(rng: random.Random, sizes: Sequence[int], kernels: Sequence[int], same: Axis | None = None) -> Axis:
    """A spatial axis; with the kernel, stride and dilation of `same`."""
    k, s, d = (
        same[:3] if same else (rng.choice(kernels), rng.choice([1, 1, 2, 3, 4]), rng.choice([1, 1, 1, 2]))
    )
    while True:
        extent = d * (k - 1) + 1
        size = rng.choice(sizes)
        begin = rng.choice([0, (extent - 1) // 2, rng.randint(0, extent - 1)])
        end = rng.choice([begin, begin, 0, rng.randint(0, extent - 1)])
        out = (size + begin + end - extent) // s + 1
        if size + begin + end >= extent:
            return k, s, d, begin, end, size, out


def _axes(rng: random.Random, rank: int, sizes: Sequence[int], kernels: Sequence[int]) -> tuple[Axis, ...]:
    found: list[Axis] = []
    same = rng.random() < 0.6
    for _ in range(rank):
        found.append(axis(rng, sizes, kernels, found[0] if same and found else None))
    return tuple(found)


SMALL, FEW = (1, 2, 3, 4, 5, 7, 8, 14), (1, 2, 3, 4, 5, 8, 16, 17)
TAPS, UNIT = (1, 1, 2, 3, 3, 4, 5), (1,)


def _wide(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    wide, other = rng.choice([*CHANNELS, *DEEP, *DEEP]), rng.choice([*FEW, *FEW, 32, 64, *CHANNELS])
    rows, columns = rng.sample([wide, other], 2)
    return 1, rows, columns, _axes(rng, rank, SMALL, rng.choice([TAPS, UNIT]))


def _weights(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    sizes = (48, 64, 96, 128, 192, 256, 384, 512, 512, 513, 768, 1024)
    taps = {1: (4, 9, 15), 2: (2, 3, 4, 4, 5), 3: (2, 3)}[rank]
    while True:
        rows, columns = rng.choices(sizes, k=2)
        axes = _axes(rng, rank, SMALL[1:], taps)
        if rows * columns * math.prod(one[0] for one in axes) >= MANY_WEIGHTS:
            return 1, rows, columns, axes


def _grouped(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    groups = rng.choice([2, 3, 4, 8, 32, 64, 100])
    return (
        groups,
        rng.choice([*FEW, 64, 96, 256]),
        rng.choice([*FEW, 64, 96, 256]),
        _axes(rng, rank, SMALL, TAPS),
    )


def _depthwise(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    return rng.choice(CHANNELS), 1, 1, _axes(rng, rank, SMALL, (*TAPS, 7))


def _image(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    sizes = {1: (1000, 4099, 20_000, 50_000), 2: (65, 112, 200, 224), 3: (28, 33, 56)}[rank]
    return 1, rng.choice([1, 2, 3, 4]), rng.choice(FEW), _axes(rng, rank, sizes, (*TAPS, 7, 11))


def _taps(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    kernels = {1: (9, 15, 17, 31), 2: (9, 11, 15, 31), 3: (4, 7, 9)}[rank]
    sizes = {1: (31, 32, 65, 200), 2: (14, 31, 40), 3: (7, 14)}[rank]
    groups, rows, columns = rng.choice([(1, *rng.choices(FEW, k=2)), (rng.choice((16, 64, 100)), 1, 1)])
    return groups, rows, columns, _axes(rng, rank, sizes, kernels)


def _batch(rng: random.Random, rank: int) -> tuple[int, int, int, tuple[Axis, ...]]:
    return 1, rng.choice([*FEW, 32, 64]), rng.choice([*FEW, 32, 64]), _axes(rng, rank, SMALL, TAPS)


KINDS: dict[str, Callable[[random.Random, int], tuple[int, int, int, tuple[Axis, ...]]]] = {
    "wide": _wide,
    "many weights": _weights,
    "wide groups": _grouped,
    "wide depthwise": _depthwise,
    "large image": _image,
    "many taps": _taps,
    "large batch": _batch,
}
"""What is large → groups, rows and columns of each, and the axes."""
WEIGHT_OF_KINDS = (4, 4, 2, 2, 2, 2, 1)


def convolution(rng: random.Random) -> Window:
    """Sizes of a convolution with something large in it."""
    for _ in range(ATTEMPTS):
        (kind,) = rng.choices(tuple(KINDS), WEIGHT_OF_KINDS)
        rank = rng.choice([1, 2, 2, 2, 3])
        groups, rows, columns, axes = KINDS[kind](rng, rank)
        batch = rng.choice([32, 64, 100, 128]) if kind == "large batch" else rng.choice([1, 1, 2, 3])
        taps, src, dst = (math.prod(one[place] for one in axes) for place in (0, 5, 6))
        windows = batch * groups * rows * dst * taps
        if (
            windows <= WINDOWS
            and windows * columns <= PRODUCTS
            and groups * rows * columns * taps <= WEIGHTS
            and batch * groups * max(rows * src, columns * dst) <= 2 * ELEMENTS
        ):
            return Window(kind, batch, groups, rows, columns, axes)
    raise RuntimeError("nothing that was drawn fits into the number of elements")


def pooling(rng: random.Random) -> tuple[int, int, tuple[Axis, ...]]:
    """Batch, channels and axes of a pooling."""
    for _ in range(ATTEMPTS):
        kind = rng.choice(["wide", "wide", "large image", "many taps", "large batch"])
        rank = rng.choice([1, 2, 2, 2, 3])
        axes = KINDS[kind](rng, rank)[3]
        channels = rng.choice(CHANNELS if kind == "wide" else FEW)
        batch = rng.choice([32, 64, 100, 128]) if kind == "large batch" else rng.choice([1, 1, 2, 3])
        taps, src, dst = (math.prod(one[place] for one in axes) for place in (0, 5, 6))
        if batch * channels * dst * taps <= WINDOWS and batch * channels * max(src, dst) <= 2 * ELEMENTS:
            return batch, channels, axes
    raise RuntimeError("nothing that was drawn fits into the number of elements")
