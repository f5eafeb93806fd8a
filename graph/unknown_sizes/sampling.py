"""Which sizes a template is tried with, and the graphs that it makes for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import field

from ...ops.errors import OneDNNGraphError, UnsupportedError
from ...ops.records import frozen
from ...ops.schema import UNKNOWN_DIM
from ...ops.values import one_line
from ..core.building import content_of
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, format_shape, label

Shapes = dict[str, tuple[int, ...]]
"""Of inputs, by name."""
Make = Callable[[Shapes], Graph]
"""A template: from the shapes of all inputs to the graph for them."""
PATTERN = (3, 5, 4, 7, 2, 11, 6, 13)
"""Sizes of each parity, and some without a common divisor: what counts in twos, threes or fives is not the same."""
SCALES = (1, 8, 32, 640)
"""What sizes are multiples of where a template makes no graph for small ones, as of images that are halved again, or of
sound that is cut into windows of 400 samples."""
ENOUGH = 5
"""Graphs that are compared."""
FEWEST = 3
"""Graphs without which nothing is said of a template."""
FAR = (8192, 2048, 512, 128, 48)
"""Sizes, or the next below that may be, at which parts that end at a number are told from all that there is."""
MOST_GROWN = 1 << 20
"""Elements of constants that grow with a size, as masks do with its square: importers have other ops for more."""


@frozen
class OpenSize:
    """A size that a template leaves open.

    Attributes:
        name: two of one name are equal in each call.
        bounds: the smallest and the largest size that the model was made for; None where it is for all.
    """

    name: str
    bounds: tuple[int, int | None] | None = None


Sizes = Mapping[tuple[str, int], OpenSize]
"""By input and axis."""
Pattern = Mapping[str, tuple[int | str, ...]]
"""Shapes of inputs, with names in the place of open sizes."""


@frozen(eq=False)
class Sample:
    """What a template makes for some sizes.

    Attributes:
        sizes: by the names of open sizes.
        shapes: of the inputs.
        graph: for these.
    """

    sizes: Mapping[str, int]
    shapes: Shapes
    graph: Graph = field(repr=False)

    def __str__(self) -> str:
        return ", ".join(f"{name} {format_shape(shape)}" for name, shape in self.shapes.items())


def patterns(inputs: Sequence[LogicalTensor], sizes: Sizes) -> list[Pattern]:
    """Which open sizes may be equal, the fewest first: those of one name, and then those of one axis, as batches are.

    Raises:
        UnsupportedError: the rank of an input is not known.
    """
    apart: dict[str, tuple[int | str, ...]] = {}
    along: dict[str, tuple[int | str, ...]] = {}
    for port in inputs:
        name = label(port)
        if port.shape is None:
            raise UnsupportedError(
                f"with_unknown_sizes: the number of axes of input {name!r} is not known; give it by "
                f"with_shapes({{{name!r}: [-1, …]}}) first"
            )
        axes = list(enumerate(port.shape))
        known = {axis: sizes[name, axis].name for axis, _ in axes if (name, axis) in sizes}
        apart[name] = tuple(known.get(a, f"{name}.{a}") if d == UNKNOWN_DIM else d for a, d in axes)
        along[name] = tuple(known.get(a, f"axis {a}") if d == UNKNOWN_DIM else d for a, d in axes)
    return [apart] if apart == along else [apart, along]


def open_names(pattern: Pattern) -> list[str]:
    """The names of open sizes, each once."""
    return list(dict.fromkeys(d for dims in pattern.values() for d in dims if isinstance(d, str)))


def shapes_at(pattern: Pattern, sizes: Mapping[str, int]) -> Shapes:
    """Shapes of the inputs for some sizes."""
    return {
        name: tuple(sizes[d] if isinstance(d, str) else d for d in dims) for name, dims in pattern.items()
    }


def samples(make: Make, pattern: Pattern, example: Mapping[str, Sequence[int]] | None) -> list[Sample]:
    """Graphs for several sets of sizes, in which each open size has several values.

    Raises:
        UnsupportedError: the template makes too few.
    """
    error: Exception | None = None
    for assignments in _assignments(pattern, example):
        made: list[Sample] = []
        for sizes in assignments:
            shapes = shapes_at(pattern, sizes)
            try:
                made.append(Sample(sizes, shapes, make(shapes)))
            except OneDNNGraphError as found:
                error = error or found
            if len(made) == ENOUGH:
                break
        if len(made) >= FEWEST:
            return made
    why = "" if error is None else f" ({one_line(error)})"
    raise UnsupportedError(
        f"with_unknown_sizes: no graphs come of it for the sizes that were tried{why}; take a graph for some sizes, "
        "with_shapes({…})"
    ) from error


def _assignments(
    pattern: Pattern, example: Mapping[str, Sequence[int]] | None
) -> Iterator[list[dict[str, int]]]:
    """Lists of sizes for all names, the likeliest first."""
    names = open_names(pattern)
    count = len(PATTERN)
    for scale in SCALES:
        yield [
            {name: scale * (PATTERN[(k + 3 * i) % count] + 16 * (i // count)) for i, name in enumerate(names)}
            for k in range(count)
        ]
    if example is not None:
        given = {d: e for n, dims in pattern.items() for d, e in zip(dims, example[n], strict=True)}
        for step in (1, 2):
            yield [
                {n: given[n] + step * (PATTERN[(k + 3 * i) % count] - 2) for i, n in enumerate(names)}
                for k in range(count)
            ]


def far(make: Make, pattern: Pattern, made: Sequence[Sample], sizes: Sizes) -> list[Sample]:
    """Graphs with a large size in the place of one of the open ones, for each of them, as far as there are such.

    What a template takes up to a number, the first 100 say, is all of it for every small size.

    Args:
        made: for small sizes.
        sizes: what is known of the open ones.
    """
    most = {one.name: one.bounds[1] for one in sizes.values() if one.bounds is not None}
    found: list[Sample] = []
    for name in open_names(pattern):
        known = sorted({sample.sizes[name] for sample in made})
        step = math.gcd(*(one - known[0] for one in known)) or 1
        last = most.get(name)
        aims = FAR if last is None else sorted({min(aim, last) for aim in FAR}, reverse=True)
        tried = [known[0] + (aim - known[0]) // step * step for aim in aims]
        largest = _largest(make, pattern, made, name, [one for one in tried if one > known[-1]])
        found += [] if largest is None else [largest]
    return found


def _largest(
    make: Make, pattern: Pattern, made: Sequence[Sample], name: str, tried: Sequence[int]
) -> Sample | None:
    """The graph for the largest of some sizes for which there is one; `tried` begins with it."""
    held = [{array.shape for array in content_of(one.graph).constants.values()} for one in made]
    grow, found = any(shapes != held[0] for shapes in held), None
    for size in tried[::-1] if grow else tried:
        if found is not None:
            arrays = content_of(found.graph).constants.values()
            grown = sum(array.size for array in arrays if array.shape not in held[0])
            if grown * (size / found.sizes[name]) ** 2 > MOST_GROWN:
                break
        given = {**made[0].sizes, name: size}
        shapes = shapes_at(pattern, given)
        try:
            found = Sample(given, shapes, make(shapes))
        except OneDNNGraphError:  # it is for smaller ones only
            continue
        if not grow:
            break
    return found


def small(pattern: Pattern, sample: Sample) -> list[Shapes]:
    """Shapes with 1 for an open size, or for all: what is another axis for templates, one to leave out or to repeat."""
    names = open_names(pattern)
    alone = [{**sample.sizes, name: 1} for name in names] if len(names) > 1 else []
    return [shapes_at(pattern, sizes) for sizes in (*alone, dict.fromkeys(names, 1))]


def check_bounds(sizes: Sizes) -> None:
    """Whether the template is one for sizes of any number.

    Raises:
        UnsupportedError: it is not.
    """
    for (name, axis), size in sizes.items():
        if size.bounds is not None:
            least, most = size.bounds
            told = f"at least {least}" if most is None else f"between {least} and {most}"
            raise UnsupportedError(
                f"with_unknown_sizes: axis {axis} of input {name!r} must have {told} elements, as the module was "
                "exported, which a graph with unknown sizes does not hold inputs to; export it without these bounds, "
                "or say that you do, with_unknown_sizes(unbounded=True)"
            )
