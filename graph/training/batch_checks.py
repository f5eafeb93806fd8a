"""What is said of batches that don't fit, before anything runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from ...ops.errors import ArgumentTypeError, OneDNNGraphError, ShapeError
from ...ops.schema import UNKNOWN_DIM, format_shape
from ...ops.values import format_value
from ..gradients.arithmetic import is_float
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array
from ..runtime.misfits import fits, way_to_fit
from .program import feeds_like
from .source import Source


def check_batches(batches: object, what: str, names: Sequence[str] = ()) -> None:
    """Sees to it that something is batches, and not one batch or arrays of all examples.

    Args:
        what, names: see `batches_of`.

    Raises:
        ArgumentTypeError: it is not.
    """
    feeds, must = (
        feeds_like(names or ["x", "y"]),
        "must be a sequence of mappings from names to arrays",
    )
    if isinstance(batches, Mapping):
        raise ArgumentTypeError(
            f"{what} {must}, got one {type(cast('object', batches)).__name__}; write [feeds] for one batch, or "
            f"Loader(feeds, batch_size) for batches of that many examples"
        )
    several = isinstance(batches, list | tuple)
    first = next(iter(cast("Iterable[object]", batches)), None) if several else None
    if hasattr(batches, "shape") or hasattr(first, "shape"):  # what has rows can be gone through
        raise ArgumentTypeError(
            f"{what} {must}, got {'an array' if first is None else 'arrays'} without names; write [{feeds}] for one "
            f"batch, or Loader({feeds}, batch_size) for batches of that many examples"
        )
    if not isinstance(batches, Iterable):
        raise ArgumentTypeError(
            f"{what} {must}, or a function from the number of the epoch to one, got {format_value(batches)}"
        )


def check_batch(inputs: Sequence[LogicalTensor], arrays: Mapping[str, Array]) -> None:
    """Says what to do where an array is of another shape than its input, as the last batch of an epoch may be.

    Raises:
        ShapeError: one is.
    """
    batch = next((t.shape[0] for t in inputs if t.shape), UNKNOWN_DIM)
    for tensor in inputs:
        array, shape = arrays.get(label(tensor)), tensor.shape
        if array is None or shape is None or fits(array.shape, shape):
            continue
        must = f"input {label(tensor)!r} must have shape {format_shape(shape)}, got {list(array.shape)}; "
        if array.ndim == len(shape) + 1 and not is_float(tensor.data_type) and fits(array.shape[:-1], shape):
            axis = "leave out the last axis, array[..., 0]" if array.shape[-1] == 1 else ""
            raise ShapeError(
                f"{must}{axis or 'if these are shares of classes, array.argmax(-1) has the numbers of the classes'}"
            )
        # A shorter batch, unless the first axis is not that of examples, or others differ too.
        other = not shape or shape[0] != batch or not fits(array.shape[1:], shape[1:]) or not array.ndim
        if not other and len(shape) == array.ndim:
            shorter = "leave a shorter last batch out by Loader(…, drop_last=True), or "
            raise ShapeError(
                f"input {label(tensor)!r} is for batches of {shape[0]}, shape {format_shape(shape)}, got one of "
                f"{len(array)}; {shorter if len(array) < shape[0] else ''}make the input of shape "
                f"{[UNKNOWN_DIM, *shape[1:]]}, whose size is open"
            )
        raise ShapeError(must + (way_to_fit(array.shape, shape) or "give an array of that shape"))


@contextmanager
def telling_lengths(source: Source, shapes: Mapping[str, tuple[int, ...]]) -> Generator[None]:
    """Has an error of shapes speak of the batch where all that is wrong are the lengths of what is fed.

    Args:
        source: of the graphs.
        shapes: of what is fed, by the names of inputs.

    Raises:
        ShapeError: what is fed is not equally long.
    """
    try:
        yield
    except ShapeError as error:
        told = unequal(source.inputs, shapes)
        if not told or not _are_fit(source, shapes):
            raise
        raise ShapeError(told) from error


def unequal(inputs: Sequence[LogicalTensor], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """What to say where inputs with an axis of examples are not equally long; empty where all are."""
    lengths = _lengths(inputs, shapes)
    if len(set(lengths.values())) < 2:
        return ""
    told = ", ".join(f"{length} of {name!r}" for name, length in lengths.items())
    return f"all inputs must have as many examples, got {told}; give each example all that belongs to it"


def _lengths(inputs: Sequence[LogicalTensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """How many examples each input has of which it is open, or as many as the first one has."""
    batch = next((t.shape[0] for t in inputs if t.shape), UNKNOWN_DIM)
    given = [(label(t), t.shape, shapes[label(t)]) for t in inputs if shapes.get(label(t))]
    return {
        name: have[0] for name, want, have in given if want is None or want[:1] in ((batch,), (UNKNOWN_DIM,))
    }


def _are_fit(source: Source, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the graph takes what is fed once each is as long as the first."""
    lengths = _lengths(source.inputs, shapes)
    first = next(iter(lengths.values()))
    equal = {name: (first, *shape[1:]) if name in lengths else shape for name, shape in shapes.items()}
    try:
        source.at(equal)[0].finalize()
    except OneDNNGraphError:
        return False
    return True
