"""Arguments of an execution: from what the user passes to arrays that an executable can take.

The rule: an array that lies as compiled is used as it is. An input that does not is copied into place, an output
that does not is computed aside and copied back. What can't be right is refused before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, OutOfMemoryError, ShapeError
from ...ops.values import format_value
from ..model.logical_tensor import LayoutType, LogicalTensor, as_plain, format_shape, may_overlap
from ..model.numpy_types import itemsize
from ..model.op import Op, PortName, port_names
from .arrays import SEVEN_BITS, Array, as_array, begins_at_a_line, in_seven_bits, numpy_type, pinned
from .direct import DirectCall, PlainPort
from .engine import Engine
from .executable import Executable, Settling
from .layouts import LayoutHandle, check_buffer
from .shared_constants import MadeConstant
from .tensor import Tensor, allocate, check_array, plain_array

PAST_CACHES = ("Interpolate", "InterpolateBackward")
"""Ops whose large results oneDNN may write past the caches, which takes memory that begins at a cache line."""


class _Port:
    """One tensor of an executable, with what checking an array needs."""

    def __init__(
        self,
        tensor: LogicalTensor,
        name: PortName,
        engine: Engine,
        constant: Array | None = None,
        narrow: bool = False,
    ) -> None:
        self.tensor, self._narrow = tensor, narrow
        self.what = f"{name}, {tensor},"
        opaque = tensor.layout_type is LayoutType.opaque
        self.layout = engine.layouts.of(tensor, self.what) if opaque else None
        self.plain = as_plain(tensor)
        self.dtype = numpy_type(tensor.data_type)
        self.shape = tensor.dims
        size = itemsize(tensor.data_type)
        self.byte_strides = tuple(s * size for s in self.plain.element_strides)
        self._repeats = self.plain.strides is not None and may_overlap(self.shape, self.plain.strides)
        held = None if opaque else constant
        # A copy of a parameter, which alone can be written to, would stay what it was.
        self._moving = held if held is not None and held.flags.writeable and not self.fits(held) else None
        self.constant = None if held is None or self._moving is not None else self.placed(held)
        """What the graph holds for it, as compiled; None for a parameter that is copied at each execution."""

    @property
    def plain_port(self) -> PlainPort:
        """How an array lies that is used as it is."""
        return PlainPort(self.shape, self.dtype, self.byte_strides)

    def allocate(self) -> Array:
        """An uninitialised array for an output, or a staged input."""
        if self.layout is None:
            return allocate(self.plain, self.what)
        try:
            return np.empty(self.layout.nbytes, np.uint8)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"{self.what} needs {self.layout.nbytes} bytes of memory, more than there is; use a smaller shape"
            ) from error

    def fits(self, array: Array) -> bool:
        """Whether the array lies exactly as compiled."""
        return self.layout is not None or (
            array.dtype == self.dtype
            and (array.strides == self.byte_strides or self._same_strides(array))
            and array.flags.aligned
        )

    def _same_strides(self, array: Array) -> bool:
        """Strides of axes of one element, and of empty arrays, mean nothing."""
        return array.size == 0 or all(
            have == want or dim == 1
            for have, want, dim in zip(array.strides, self.byte_strides, self.shape, strict=True)
        )

    def placed(self, array: Array) -> Array:
        """The array where it lies as compiled, a copy where it does not.

        Raises:
            ArgumentError: elements that share memory there are several numbers.
        """
        if self.fits(array):
            return array
        staged = self.allocate()
        np.copyto(staged, array)
        if self._repeats and not ((staged == array) | (array != array)).all():
            raise ArgumentError(
                f"{self.what} has strides {list(self.plain.element_strides)}, under which elements share memory, and "
                "must have the same number in all of these, got several; describe it with strides of its own"
            )
        return staged

    def array_of(self, value: object) -> Array:
        """The checked array behind what the user passed."""
        held = self.constant if self._moving is None else self._moving
        if value is None and held is not None:
            return held
        if self.layout is not None:
            return self._bytes_of(value, self.layout)
        array = plain_array(value, self.what)
        if array.shape != self.shape or array.dtype != self.dtype:
            check_array(array, self.plain, self.what)
        if self._narrow and not in_seven_bits(array):
            raise ArgumentError(
                f"{self.what} must have integers from -{SEVEN_BITS} to {SEVEN_BITS}, as those that the graph holds, "
                f"for which its kernel was chosen, got {array.min()} to {array.max()}; build a graph that holds these"
            )
        return array

    def _bytes_of(self, value: object, layout: LayoutHandle) -> Array:
        """The buffer of an opaque tensor in the layout that was compiled for, and in no other."""
        if not isinstance(value, Tensor) or value.layout is not layout:
            raise ArgumentError(
                f"{self.what} is opaque and takes the Tensor in layout {layout.id} that it was compiled for, got "
                f"{format_value(value)}; wrap the buffer with Tensor.from_opaque, or compile for a strided tensor"
            )
        return check_buffer(value.data, layout, self.what)

    def target_of(self, value: object) -> Array:
        """The array behind what the user passed to be written to.

        Raises:
            ArgumentError, ArgumentTypeError: nothing that can be written to as this port's tensor lies.
        """
        if self.layout is not None:
            if isinstance(value, Tensor):
                return self._bytes_of(value, self.layout)
            return check_buffer(as_array(value, self.what), self.layout, self.what)
        if not isinstance(value, np.ndarray | Tensor) and not hasattr(value, "__dlpack__"):
            raise ArgumentTypeError(
                f"{self.what} must be an array or Tensor that can be written to, got {format_value(value)} of "
                f"type {type(value).__name__}"
            )
        if isinstance(value, Tensor) and value.layout is not None:
            raise ArgumentError(
                f"{self.what} is strided and can't be written to an opaque tensor, got {value}; pass a strided "
                "Tensor or an array"
            )
        return self.array_of(cast("object", value))


class Arguments:
    """An executable with the checks and copies around it.

    Args:
        executable: what takes arrays.
        ops: what it computes, for messages.
        engine: what it was compiled for.
        constants: what the graph holds for inputs, by tensor id.
        in_place: memory of the graph's that outputs are written to, by tensor id, row-major. It may be that of an
            input: whoever gives it knows that the executable reads each element before it writes there.
        narrow: ids of inputs that are constants of 7 bits, for which alone kernels may have been chosen.
    """

    def __init__(
        self,
        executable: Executable,
        ops: Sequence[Op],
        engine: Engine,
        constants: Mapping[int, Array],
        in_place: Mapping[int, Array] | None = None,
        narrow: Collection[int] = (),
    ) -> None:
        self.executable = executable
        self._ops = ops
        self._engine = engine
        names = port_names(ops, (*executable.inputs, *executable.outputs))
        self._inputs = [
            _Port(t, names[t.id], engine, constants.get(t.id), t.id in narrow) for t in executable.inputs
        ]
        self._outputs = [_Port(t, names[t.id], engine) for t in executable.outputs]
        self._in_place = [(in_place or {}).get(t.id) for t in executable.outputs]
        self._all_new = not in_place
        self._past_caches = any(op.kind in PAST_CACHES for op in ops)

    def _listed(self, ports: list[_Port], given: object, what: str) -> Sequence[object]:
        if isinstance(given, list | tuple):
            listed = cast("Sequence[object]", given)
            if len(listed) == len(ports):
                return listed
        return listed_arguments(self._ops, what, [p.tensor for p in ports], cast("object", given))

    def _taken(self, given: object) -> list[Array]:
        """Inputs as compiled; copies where they lie differently."""
        return [
            port.constant
            if value is None and port.constant is not None
            else port.placed(port.array_of(value))
            for port, value in zip(self._inputs, self._listed(self._inputs, given, "input"), strict=True)
        ]

    def _target(self, port: _Port, value: object) -> Array:
        """An output array as the user gave it, checked to be writeable and to hold each element once."""
        array = port.target_of(value)
        if not array.flags.writeable:
            raise ArgumentError(f"{port.what} must be writeable, got a read-only array; pass a copy")
        if not port.fits(array) and _repeats(array):
            raise ArgumentError(
                f"{port.what} must have a place of its own for each element, got strides "
                f"{list(array.strides)} in bytes; pass an array that is not broadcast"
            )
        return array

    def execute(self, inputs: object, outputs: object) -> tuple[Array, ...]:
        """See `CompiledPartition.execute`."""
        ins = self._taken(inputs)
        if outputs is None and self._all_new:
            results = [port.allocate() for port in self._outputs]
            self.executable.run(ins, results)
            return tuple(results)
        given = [None] * len(self._outputs) if outputs is None else outputs
        listed = self._listed(self._outputs, given, "output")
        targets = [
            self._target(port, value) if value is not None else port.allocate() if held is None else held
            for port, value, held in zip(self._outputs, listed, self._in_place, strict=True)
        ]
        self._check_apart([t for t, value in zip(targets, listed, strict=True) if value is not None])
        computed = [
            array
            if value is None or (self._takes(port, array) and not _meets(array, ins))
            else port.allocate()
            for port, array, value in zip(self._outputs, targets, listed, strict=True)
        ]
        self.executable.run(ins, computed)
        for port, target, array in zip(self._outputs, targets, computed, strict=True):
            if target is not array:  # a buffer for an opaque output may be larger than it needs
                np.copyto(target if port.layout is None else target[: array.size], array)
        # An array of a subclass comes back as itself, not as the plain view of it that was computed with.
        return tuple(
            cast("Array", given) if isinstance(given, np.ndarray) else target
            for given, target in zip(listed, targets, strict=True)
        )

    def _takes(self, port: _Port, array: Array) -> bool:
        """Whether an output may be written where it is."""
        return port.fits(array) and not (self._past_caches and not begins_at_a_line(array))

    def direct(
        self, given: Sequence[int], returned: Sequence[int], names: Sequence[str]
    ) -> DirectCall | None:
        """Calls with plain arrays and new outputs; None where arguments may be something else.

        Args:
            given: ids of the tensors that a call gives, in order. names: theirs.
            returned: ids of those that it returns.
        """
        ports = (*self._inputs, *self._outputs)
        ids = [port.tensor.id for port in self._outputs]
        row_major = all(port.tensor.strides is None for port in self._outputs)
        if not self._all_new or not row_major or any(port.layout is not None for port in ports):
            return None
        by_id = {port.tensor.id: port for port in self._inputs}
        inputs = [
            given.index(port.tensor.id) if port.tensor.id in given else port.constant for port in self._inputs
        ]
        known = [one for one in inputs if one is not None]
        if len(known) < len(inputs) or not by_id.keys() >= {*given} or not {*ids} >= {*returned}:
            return None
        return DirectCall(
            self.executable,
            [by_id[number].plain_port for number in given],
            known,
            [port.plain_port for port in self._outputs],
            [ids.index(number) for number in returned],
            names,
        )

    def settle(self) -> None:
        """Has the executable make what it makes of constants, before the first execution."""
        if isinstance(self.executable, Settling):
            self.executable.settle([port.constant for port in self._inputs])

    def made(self) -> Sequence[MadeConstant] | None:
        """What the executable has made of constants; None before it has."""
        return self.executable.made() if isinstance(self.executable, Settling) else ()

    def bind(self, inputs: object, outputs: object) -> tuple[Callable[[], None], object]:
        """See `CompiledPartition.bind`; the callable, and what must live as long as it does."""
        ins: list[Array] = []
        for port, value in zip(self._inputs, self._listed(self._inputs, inputs, "input"), strict=True):
            array = port.array_of(value)
            if not port.fits(array):
                raise ArgumentError(
                    f"{port.what} must lie as compiled to be bound, with byte strides "
                    f"{list(port.byte_strides)}, aligned and in native byte order, got strides "
                    f"{list(array.strides)} of {array.dtype}; compile with its strides, or use execute"
                )
            ins.append(array)
        listed = self._listed(self._outputs, outputs, "output")
        targets = [
            self._target(port, value) if held is None else held
            for port, value, held in zip(self._outputs, listed, self._in_place, strict=True)
        ]
        new = [n for n, held in enumerate(self._in_place) if held is None]
        self._check_apart([targets[n] for n in new])
        for port, array in ((self._outputs[n], targets[n]) for n in new):
            if not port.fits(array):
                raise ArgumentError(
                    f"{port.what} must lie as compiled to be bound, with byte strides "
                    f"{list(port.byte_strides)}, got {list(array.strides)}; compile with its strides"
                )
            if not self._takes(port, array):
                raise ArgumentError(
                    f"{port.what} must begin at a multiple of 64 bytes to be bound, for it is large and of a "
                    "resampling; take one that bind allocates, or use execute, which copies"
                )
            if _meets(array, ins):
                raise ArgumentError(
                    f"{port.what} must not share memory with an input to be bound; use execute, which copies"
                )
        return self.executable.bind(ins, targets), pinned([*ins, *targets])

    def _check_apart(self, targets: Sequence[Array]) -> None:
        for position, array in enumerate(targets):
            for other in targets[:position]:
                if np.may_share_memory(array, other):
                    raise ArgumentError(f"{self._ops[0]}: two outputs share memory; pass separate arrays")

    def plain(self, index: int, array: Array) -> Array:
        """Output `index` in plain layout."""
        port = self._outputs[index]
        if port.layout is None:
            return array
        return Tensor.from_opaque(port.tensor, array, self._engine).numpy()


def listed_arguments(
    ops: Sequence[Op], what: str, tensors: Sequence[LogicalTensor], given: object
) -> Sequence[object]:
    """`given` as a sequence with one argument for each tensor.

    Raises:
        ArgumentTypeError, ArgumentError: no sequence, or one of another length.
    """
    listed: Sequence[object] | None = None
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray):
        listed = cast("Sequence[object]", given)
        if len(listed) == len(tensors):
            return listed
    names = port_names(ops)
    takes = f"{len(tensors)} {what}{'' if len(tensors) == 1 else 's'}"
    spelled = ", ".join(f"'{names[t.id].port}' {t}" for t in tensors)
    if listed is not None:
        raise ArgumentError(f"{ops[0]}: an execution takes {takes}, {spelled}, got {len(listed)}")
    given = cast("object", given)
    raise ArgumentTypeError(
        f"{ops[0]}: {what}s must be a list of {takes}, {spelled}, got {format_value(given)} of type "
        f"{type(given).__name__}; write [array]"
    )


def target_array(name: str, tensor: LogicalTensor, value: object) -> Array:
    """The array behind what the user passed for a graph's output to be copied to.

    Args:
        name: of the output. tensor: its own, with what is known of its shape.

    Raises:
        ArgumentError, DataTypeError, ShapeError: it can't be written to, or is another's.
    """
    what = f"output {name!r}"
    array = plain_array(value, what)
    if (
        tensor.data_type is not DataType.undef
    ):  # else known with the value alone, which it is held against then
        check_array(array, tensor, what)
    if not array.flags.writeable:
        raise ArgumentError(f"{what} must be writeable, got a read-only array; pass a copy")
    if _repeats(array):
        raise ArgumentError(
            f"{what} must have a place of its own for each element, got strides {list(array.strides)} in bytes; pass "
            "an array that is not broadcast"
        )
    return array


def _meets(array: Array, others: Sequence[Array]) -> bool:
    """Whether the array's memory meets that of another, by their bounds."""
    return any(np.may_share_memory(array, other) for other in others)


def _repeats(array: Array) -> bool:
    """Whether two elements of the array may share memory."""
    reach = array.itemsize
    for stride, dim in sorted((abs(s), d) for d, s in zip(array.shape, array.strides, strict=True) if d > 1):
        if stride < reach:
            return True
        reach += stride * (dim - 1)
    return False


def shape_operand_value(value: object, tensor: LogicalTensor, name: PortName) -> tuple[int, ...]:
    """The sizes that a shape operand holds.

    Raises:
        DataTypeError, ShapeError: no 1-D array of the declared integer type and length.
    """
    what = f"{name}, {tensor},"
    array = plain_array(value, what)
    if array.dtype.kind not in "iu" or array.dtype.newbyteorder("=") != numpy_type(tensor.data_type):
        raise DataTypeError(
            f"{what} must be a 1-D array of {tensor.data_type.value}, got {array.dtype}; convert it with "
            f".astype({numpy_type(tensor.data_type).name!r})"
        )
    if array.ndim != 1 or (tensor.is_concrete and array.shape != tensor.dims):
        raise ShapeError(f"{what} must have shape {format_shape(tensor.shape)}, got {list(array.shape)}")
    return tuple(int(v) for v in array)
