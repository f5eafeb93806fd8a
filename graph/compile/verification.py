"""Proof of an executable on integer data, against the NumPy backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from ...ops.data_types import DataType
from ...ops.errors import OneDNNGraphError
from ...ops.records import frozen
from ..model.logical_tensor import LayoutType, LogicalTensor, PropertyType, as_plain
from ..model.op import Op
from ..runtime.arguments import Arguments
from ..runtime.arrays import Array, address, numpy_type
from ..runtime.executable import Executable, Explanation, Tapped, Visit
from ..runtime.tensor import allocate, strided_view
from .backend import BACKENDS, CompileRequest
from .options import CompileOptions

ROUNDINGS = 64
"""By how many roundings of its type a number may be off elsewhere: a chain of functions, sums in another order."""

MARGIN, ALIGNMENT = 256, 64
"""Bytes around outputs, and the boundary that their first element lies at."""
POISON = 0xFF
"""Repeated, it is NaN in every floating-point type, and -1 in integers."""

PERIOD = 65_521
"""Elements, a prime number: rows of a matrix that is full of a pattern of so many differ."""

LOOKED_AFTER = {"MaxPool": -np.inf, "ReduceMax": -np.inf, "ReduceMin": np.inf, "SoftMax": -np.inf}
"""Kinds whose kernels lose infinities, which others find again → which one."""
STEPWISE = ("Round",)
"""What makes another number of one that is a rounding off."""
UNTRIED = "it can't be tried"
"""How what says nothing of a kernel begins."""
INTEGERS = (DataType.s64, DataType.s32, DataType.s8, DataType.u8)


POSITIVE_PORTS = ("variance", "running_variance", "batch_variance", "scales")
"""Of what is below zero there NaN is made, which tells nothing of a kernel."""


def _positive(request: CompileRequest) -> frozenset[int]:
    """The tensors that are read as variances or scales."""
    return frozenset(
        tensor.id
        for op in request.ops
        for port, tensor in zip(op.input_ports, op.inputs, strict=True)
        if port.name in POSITIVE_PORTS
    )


def _rounding(array: Array) -> float:
    """How far the numbers of an array's type are apart, for those from 1 on."""
    return {1: 2.0**-2, 2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-52}[array.dtype.itemsize]


def _close(have: Array, want: Array, step: float) -> Array:
    """Whether numbers agree within a few roundings; integers within a step."""
    if have.dtype.kind in "iub":
        return np.abs(have.astype(np.int64) - want.astype(np.int64)) <= 1
    first, second = _floats(have), _floats(want)
    with np.errstate(invalid="ignore"):
        size = np.abs(second)
        # What was added up to a small number may have been as large as what became of others.
        largest = np.max(size, initial=1.0, where=np.isfinite(size))
        return np.abs(first - second) <= ROUNDINGS * step * np.maximum(size, largest)


def _bounds(request: CompileRequest) -> dict[int, int]:
    """For each tensor that elements are counted by, or that makes such a one, the number that all are below."""
    found: dict[int, int] = {}

    def note(tensor: LogicalTensor, bound: int) -> None:
        found[tensor.id] = min(bound, found.get(tensor.id, bound))

    for op in reversed(request.ops):
        inputs = list(zip(op.input_ports, op.inputs, strict=True))
        ports = {
            port.name: tensor for port, tensor in (*inputs, *zip(op.output_ports, op.outputs, strict=True))
        }
        made = min((found[t.id] for t in op.outputs if t.id in found), default=None)
        for port, tensor in inputs:
            if port.index:
                note(tensor, max(min(ports[port.index].dims, default=1), 1))
            elif made is not None and tensor.data_type in INTEGERS:
                note(tensor, made)
    return found


def wrong_on_integers(request: CompileRequest, executable: Executable, *, every: bool = True) -> str | None:
    """What is wrong with `executable` on small integers, held against the NumPy backend element for element, or None.

    Integers from -2 to 2 keep every partial sum of a weight gradient exact in f32, so that any difference is a wrong
    kernel. What elements are counted by fits what is counted. Other ops may differ by a few roundings of their types,
    which are enough to see a wrong kernel too.

    The executable itself is run, with its layouts, memory and views. Tensors between its ops are looked at while
    it runs, where it lets that be done (`Tapped`), and integers put in their place: over many ops roundings grow, and
    say nothing of a kernel. Then it runs once more as it does for its user, and must do the same.

    Args:
        every: whether all that can be looked at is compared; else what kernels have made that are not proven.
    """
    trial = _Trial(request, executable, every=every)
    try:
        return trial.wrong()
    except MemoryError as error:
        return f"{UNTRIED}, for there is no memory for that, {error}"
    except OneDNNGraphError as error:
        if executable.explanation.backend == "numpy":
            return None  # the reference itself
        return f"{UNTRIED}, for NumPy refuses the data that was made up for it: {error}"


@frozen(eq=False)
class _Output:
    """Memory for an output that shows what was not written, and what was written beside.

    Attributes:
        memory: all of it, poisoned.
        array: the elements in it.
    """

    memory: Array
    array: Array

    @classmethod
    def of(cls, tensor: LogicalTensor, request: CompileRequest) -> _Output:
        """Poisoned memory for a strided tensor, or one in a layout of the engine's."""
        opaque = tensor.layout_type is LayoutType.opaque
        size = request.engine.layouts.of(tensor).nbytes if opaque else tensor.nbytes
        memory = np.full(size + 2 * MARGIN + ALIGNMENT, POISON, np.uint8)
        start = MARGIN + -(address(memory) + MARGIN) % ALIGNMENT
        inside = memory[start : start + size]
        if opaque:
            return cls(memory, inside)
        return cls(
            memory,
            strided_view(inside.view(numpy_type(tensor.data_type)), tensor.dims, tensor.element_strides),
        )

    def nothing_beside(self) -> bool:
        """Whether only elements were written. The elements are gone after that."""
        same_size = self.array.view(f"u{self.array.itemsize}")
        same_size[...] = np.iinfo(same_size.dtype).max  # every byte is the poison
        return bool((self.memory == POISON).all())


@frozen(eq=False)
class _Known:
    """Elements that are known of a tensor.

    Attributes:
        array: them.
        exact: whether they are integers that nothing has rounded.
        rounding: that of the coarsest type on the way to them, which kernels that do several ops don't take.
        vague: whether infinities or NaN are on the way to them: what becomes of these tells nothing of a kernel.
    """

    array: Array
    exact: bool
    rounding: float = 0.0
    vague: bool = False


def _doubted(explanation: Explanation) -> frozenset[int] | None:
    """The ops that something runs for which nobody has proven; None where that may be any.

    Of steps with one key only the first one's is: what is said of it is said of all, in this plan as in later ones.
    """
    keys, found = set[str](), set[int | None]()
    for step in explanation.steps:
        if not step.proven and step.trust not in keys:
            found.add(step.op)
            keys |= {step.trust} - {""}
    ops = frozenset(op for op in found if op is not None)
    return ops if len(ops) == len(found) else None


class _Trial:
    """One executable on made-up data.

    Args:
        request: what it computes.
        every: see `wrong_on_integers`.
    """

    def __init__(self, request: CompileRequest, executable: Executable, *, every: bool) -> None:
        self._request, self._executable = request, executable
        self._rng = np.random.default_rng(1)
        self._bounds, self._positive = _bounds(request), _positive(request)
        self._producers = {t.id: op for op in request.ops for t in op.outputs}
        self._doubted = None if every else _doubted(executable.explanation)
        self._values: dict[int, _Known] = {}
        self._patterns: dict[np.dtype[Any], Array] = {}
        self._found: list[str] = []

    def wrong(self) -> str | None:
        """What is wrong, or None."""
        executable = self._executable
        inputs = [self._made_up(tensor) for tensor in self._request.inputs]
        kept = [self._kept(array) for array in inputs]
        for tensor, array in zip(self._request.inputs, inputs, strict=True):
            self._values[tensor.id] = _Known(array, exact=True)
        first = self._run(lambda outputs: executable.run(inputs, outputs))
        if isinstance(executable, Tapped):
            again = self._run(lambda outputs: self._tapped(executable, inputs, outputs, _only_look))
            for tensor, one, other in zip(self._request.outputs, first, again, strict=True):
                known = _Known(other, exact=False, rounding=_rounding(other))
                self._compare(tensor, one, known, "in the first call")
            last = self._run(lambda outputs: self._tapped(executable, inputs, outputs, self._visit))
        else:
            last = self._run(lambda outputs: executable.run(inputs, outputs))
        for tensor, have in zip(self._request.outputs, last, strict=True):
            if self._is_in_doubt(tensor):
                self._compare(tensor, have, self._known(tensor), "on integer data")
        for tensor, before, array in zip(self._request.inputs, kept, inputs, strict=True):
            if not _is_as_it_was(before, array):
                self._found.append(f"its input {tensor} is written to")
        if not self._found and executable.explanation.prepared:
            self._try_infinities(inputs)
        return next(iter(self._found), None)

    def _try_infinities(self, inputs: Sequence[Array]) -> None:
        """Has constants be all −∞, of which some ops take kernels' results and begin them anew.

        That must not be moved before the kernel, to where constants are prepared, and on integers nobody would see it.
        """
        request, executable = self._request, self._executable
        given = {tensor.id: array for tensor, array in zip(request.inputs, inputs, strict=True)}
        constant = {t.id for t in request.inputs if t.property_type is PropertyType.constant}
        touched = set[int]()
        for op in request.ops:
            source = op.inputs[0].id if op.kind in LOOKED_AFTER else -1
            if source in constant and given[source].dtype.kind not in "iub" and source not in request.values:
                given[source] = np.full_like(given[source], LOOKED_AFTER[op.kind])
                touched.add(op.outputs[0].id)
            if any(tensor.id in touched for tensor in op.inputs):
                touched |= {tensor.id for tensor in op.outputs}
        if not touched:
            return
        arrays = [given[tensor.id] for tensor in request.inputs]
        results = self._run(lambda outputs: executable.run(arrays, outputs))
        self._values = {number: _Known(array, exact=True) for number, array in given.items()}
        for tensor, have in zip(request.outputs, results, strict=True):
            if tensor.id in touched and have.dtype.kind not in "iub":
                # Where a sum has ∞ beside −∞, or a product zero, kernels make NaN of it sooner or later.
                wrong = np.isinf(self._known(tensor).array) & np.isfinite(have)
                if wrong.any():
                    self._found.append(
                        f"{int(wrong.sum())} of {wrong.size} of {tensor} are wrong where constants are infinite"
                    )

    def _run(self, run: Callable[[list[Array]], object]) -> list[Array]:
        """The outputs of one run, in plain layouts."""
        executable, request = self._executable, self._request
        outputs = [_Output.of(tensor, request) for tensor in executable.outputs]
        run([one.array for one in outputs])
        arguments = Arguments(executable, request.ops, request.engine, {})
        plain = [arguments.plain(number, one.array).copy() for number, one in enumerate(outputs)]
        for tensor, one in zip(request.outputs, outputs, strict=True):
            if not one.nothing_beside():
                self._found.append(f"something is written beside the elements of {tensor}")
        return plain

    def _tapped(
        self, executable: Tapped, inputs: Sequence[Array], outputs: Sequence[Array], visit: Visit
    ) -> None:
        if not executable.run_tapped(inputs, outputs, visit):
            self._found.append("something is written beside the memory of temporaries")

    def _made_up(self, tensor: LogicalTensor) -> Array:
        """Integers for a tensor, or the values that it is compiled for."""
        array = allocate(as_plain(tensor))
        if tensor.id in self._request.values:
            array[...] = np.asarray(self._request.values[tensor.id])
        elif tensor.id in self._bounds:
            array[...] = self._rng.integers(0, self._bounds[tensor.id], tensor.dims).astype(array.dtype)
        elif tensor.data_type is DataType.s64 and array.size == 1:  # a number of steps, a seed
            array[...] = self._rng.integers(1, 4)
        elif tensor.id in self._positive:
            array[...] = self._rng.integers(1, 3, tensor.dims).astype(array.dtype)
        elif _is_long(array):
            pattern = self._pattern(array.dtype)
            whole, rest = _repeated(array, pattern)
            whole[...], rest[...] = pattern, pattern[: rest.size]
        else:
            array[...] = self._rng.integers(-2, 3, tensor.dims, np.int8).astype(array.dtype)
        return array

    def _pattern(self, dtype: np.dtype[Any]) -> Array:
        """What large tensors are full of, again and again."""
        if dtype not in self._patterns:
            self._patterns[dtype] = self._rng.integers(-2, 3, PERIOD, np.int8).astype(dtype)
        return self._patterns[dtype]

    def _kept(self, array: Array) -> Array:
        """What tells later whether an array is as it was: a copy, or the pattern that it is full of."""
        pattern = self._patterns.get(array.dtype)
        if pattern is None or not _is_long(array) or not _is_as_it_was(pattern, array):
            return array.copy()
        return pattern

    def _visit(self, tensor: LogicalTensor, array: Array, writable: bool) -> Array | None:
        """Compares a tensor between the ops, and puts integers in its place."""
        if self._is_in_doubt(tensor):
            self._compare(tensor, array, self._known(tensor), "on integer data")
        known = _Known(self._made_up(tensor), exact=True) if writable else _Known(array, exact=False)
        self._values[tensor.id] = known
        return known.array if writable else None

    def _is_in_doubt(self, tensor: LogicalTensor) -> bool:
        """Whether something that is not proven has had a part in it since the tensors that were looked at."""
        if self._doubted is None:
            return True
        open_ones, seen = [tensor], set[int]()
        while open_ones:
            one = open_ones.pop()
            if one.id not in self._values and one.id not in seen:
                seen.add(one.id)
                op = self._producers[one.id]
                if op.id in self._doubted:
                    return True
                open_ones += op.inputs
        return False

    def _known(self, tensor: LogicalTensor) -> _Known:
        """What NumPy makes of the tensors that are known."""
        open_ones = [tensor]
        while open_ones:
            one = open_ones[-1]
            missing = [] if one.id in self._values else self._missing(self._producers[one.id])
            if not missing:
                open_ones.pop()
            open_ones += missing
        return self._values[tensor.id]

    def _missing(self, op: Op) -> list[LogicalTensor]:
        """The inputs of an op that are not known; where there are none, the op is computed."""
        missing = [t for t in op.inputs if t.id not in self._values]
        if missing:
            return missing
        outputs = tuple(as_plain(t) for t in op.outputs)
        asked = evolve(self._request, ops=(op,), inputs=op.inputs, outputs=outputs, described=op.inputs)
        asked = evolve(asked, fpmath_mode="strict", forced=True, options=CompileOptions())
        (reference,) = BACKENDS.get("numpy").compile(asked)
        results = [allocate(t) for t in outputs]
        inputs = [self._values[t.id] for t in op.inputs]
        reference.run([known.array for known in inputs], results)
        exact = op.schema.exact_on_integers and all(known.exact for known in inputs)
        coarsest = max((known.rounding for known in inputs), default=0.0)
        vague = any(known.vague or not _is_finite(known.array) for known in inputs) or (
            op.kind in STEPWISE and not exact
        )
        for tensor, result in zip(op.outputs, results, strict=True):
            if tensor.id not in self._values:  # it may have been looked at
                rounding = 0.0 if exact else max(coarsest, _rounding(result))
                self._values[tensor.id] = _Known(result, exact, rounding, vague)
        return []

    def _compare(self, tensor: LogicalTensor, have: Array, known: _Known, when: str) -> None:
        want = known.array
        wrong = ~((have == want) | (want != want))  # NaN tells nothing of a kernel
        if wrong.any() and not known.exact:
            wrong &= ~_close(have, want, max(known.rounding, _rounding(have)))
            wrong &= np.isfinite(want) | np.isfinite(have)  # ∞ or NaN, as ∞·0 was computed
        if wrong.any() and not known.vague:
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            self._found.append(
                f"{int(wrong.sum())} of {wrong.size} elements of {tensor} are wrong {when}, the first "
                f"at {list(at)}: {have[at]} instead of {want[at]}"
            )


def _floats(array: Array) -> Array:
    """In double precision."""
    return array.astype(np.float64)


def _is_long(array: Array) -> bool:
    """Whether an array is filled with a pattern: to draw all weights of a model takes longer than to run it."""
    return array.size > 4 * PERIOD and array.flags.c_contiguous


def _repeated(array: Array, pattern: Array) -> tuple[Array, Array]:
    """An array as rows that have a pattern each, and what is left of it."""
    flat = array.reshape(-1)
    end = flat.size // pattern.size * pattern.size
    return flat[:end].reshape(-1, pattern.size), flat[end:]


def _is_as_it_was(before: Array, array: Array) -> bool:
    """Whether an array has the elements of a copy of before, or of the pattern that it was full of."""
    if before.shape == array.shape:
        return np.array_equal(before, array, equal_nan=before.dtype.kind == "f")
    whole, rest = _repeated(array, before)
    return all(np.array_equal(before, row) for row in whole) and np.array_equal(before[: rest.size], rest)


def _is_finite(array: Array) -> bool:
    """Whether there is neither an infinity nor NaN in it."""
    return array.dtype.kind in "iub" or bool(np.isfinite(array).all())


def _only_look(tensor: LogicalTensor, array: Array, writable: bool) -> None:
    del tensor, array, writable
