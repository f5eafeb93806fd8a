"""Arrays at the border: anything array-like as a NumPy view.

Whatever has `__dlpack__` (torch, jax, numpy, …) becomes a view without a copy, bfloat16 included, which
NumPy's own `from_dlpack` refuses. What has only `__array__` goes through that. Source of the structs: DLPack's
`dlpack.h`, version 1.0.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, ArgumentTypeError, DataTypeError
from ...ops.records import frozen
from ...ops.values import format_value, one_line
from ..model.numpy_types import DATA_TYPES, NUMPY_TYPES

Array = NDArray[Any]

DEEPEST = 64
"""Axes that a NumPy array can have."""


def numpy_type(data_type: DataType) -> np.dtype[Any]:
    """The NumPy dtype of `data_type`."""
    return NUMPY_TYPES[data_type]


def data_type_of(array: Array, what: str = "array") -> DataType:
    """The data type of an array's elements.

    Raises:
        DataTypeError: oneDNN Graph has no such type.
    """
    found = DATA_TYPES.get(array.dtype.newbyteorder("="))
    if found is None:
        raise DataTypeError(
            f"{what} has NumPy dtype {array.dtype}, which oneDNN Graph has no type for; convert it to one of "
            f"{', '.join(str(d) for d in DATA_TYPES)}"
        )
    return found


# --- DLPack -----------------------------------------------------------------------------------------

_CPU_DEVICES = {1: "CPU", 3: "CUDA host", 11: "ROCm host"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY_FLAG = 1
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
_BFLOAT, _BFLOAT_BITS = 4, 16

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.restype = ctypes.c_int
_capsule_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_set_name = ctypes.pythonapi.PyCapsule_SetName
_capsule_set_name.argtypes = (ctypes.py_object, ctypes.c_char_p)

_CAPSULES = (
    (b"dltensor_versioned", b"used_dltensor_versioned", _ManagedVersioned),
    (b"dltensor", b"used_dltensor", _Managed),
)
"""Names of capsules, their names once the tensor is taken, and what they point to."""
_DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
"""Frees a DLPack tensor."""

# A capsule points to its name, and may outlive this module.
for _, _taken, _ in _CAPSULES:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_taken))


@frozen(eq=False)
class _CapsuleView:
    """The base of a NumPy array over a DLPack tensor: its memory lives until the last view is gone.

    The tensor is ours then, and its capsule renamed, as DLPack asks of who takes one: whoever gets the same capsule
    again must not take the tensor too, and free it while it is still read here.
    """

    managed: _Managed | _ManagedVersioned
    __array_interface__: dict[str, Any]

    def __del__(self) -> None:
        if self.managed.deleter:
            _DELETER(self.managed.deleter)(ctypes.byref(self.managed))


def _managed(capsule: object, what: str) -> tuple[_Managed | _ManagedVersioned, bytes]:
    """What a capsule holds, and the name of a capsule whose tensor is taken."""
    for name, taken, struct in _CAPSULES:
        if _capsule_is_valid(capsule, name):
            return struct.from_address(cast("int", _capsule_pointer(capsule, name))), taken
    raise ArgumentError(f"{what} gave no DLPack capsule, or one that was taken before; pass a NumPy array")


def _from_capsule(capsule: object, what: str) -> Array:
    managed, taken = _managed(capsule, what)
    tensor: _Tensor = managed.tensor
    read_only = False
    if isinstance(managed, _ManagedVersioned):
        if managed.major > 1:  # whose structs may lie otherwise
            raise ArgumentError(
                f"{what} gave a tensor of DLPack {managed.major}, not 1.x; pass a NumPy array"
            )
        read_only = bool(managed.flags & _READ_ONLY_FLAG)
    if tensor.device_type not in _CPU_DEVICES:
        raise ArgumentError(
            f"{what} must be in CPU memory, got DLPack device type {tensor.device_type}; copy it to the CPU first"
        )
    is_bfloat = tensor.code == _BFLOAT and tensor.bits == _BFLOAT_BITS
    kind = "V" if is_bfloat else _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1 or tensor.bits % 8:
        raise DataTypeError(
            f"{what} has DLPack type code {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes, "
            "which oneDNN Graph has no type for; convert it to f32"
        )
    size = tensor.bits // 8
    if tensor.ndim < 0 or (tensor.ndim and not tensor.shape):
        raise ArgumentError(
            f"{what} gave a DLPack tensor of {tensor.ndim} axes without sizes; pass a NumPy array"
        )
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] * size for axis in range(tensor.ndim)) if tensor.strides else None
    if 0 in shape:  # the pointer of an empty tensor may be anything
        empty = np.empty(shape, dtype=f"{kind}{size}")
        return empty.view(ml_dtypes.bfloat16) if is_bfloat else empty
    if not tensor.data:
        raise ArgumentError(f"{what} gave a DLPack tensor without memory; pass a NumPy array")
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": f"{'|' if size == 1 or is_bfloat else '<'}{kind}{size}",
        "data": (tensor.data + tensor.byte_offset, read_only),
    }
    _capsule_set_name(capsule, taken)
    array: Array = np.asarray(_CapsuleView(managed, interface))
    return array.view(ml_dtypes.bfloat16) if is_bfloat else array


def _dlpack(value: Any, what: str) -> Array:
    # torch exports a view with this bit (the imaginary part of a conjugate) as if it were not negated.
    is_negated = getattr(value, "is_neg", None)
    if callable(is_negated) and is_negated():
        raise ArgumentError(f"{what} is a tensor with its negative bit set; pass .resolve_neg()")
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # an exporter older than DLPack 1.0 has no such parameter
            capsule = value.__dlpack__()
    except (BufferError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"{what} of type {type(value).__name__} can't be shared through DLPack ({one_line(error)}); "
            "pass a detached CPU tensor or a NumPy array"
        ) from error
    return _from_capsule(capsule, what)


def as_array(value: object, what: str) -> Array:
    """`value` as a NumPy array, without a copy where its type allows it.

    Args:
        value: a NumPy array, anything with `__dlpack__` or `__array__`, or a (nested) list of numbers.
        what: how messages name it.

    Raises:
        ArgumentTypeError: it is nothing of the kind, or a list of arrays.
        ArgumentError: a tensor on another device, or one that its library refuses to share.
        DataTypeError: a data type without a counterpart.
    """
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        if type(array) is np.ndarray:  # before NumPy is asked for masked ones, whose module it then imports
            return array
        if isinstance(array, np.ma.MaskedArray):
            raise ArgumentTypeError(
                f"{what} must be a plain array, got a MaskedArray, whose mask would be lost; pass .filled(0)"
            )
        # What a subclass says of its shape or address may be anything; NumPy's own view of it is the memory's.
        return np.asarray(array)
    # A class has the methods of its instances, and calling them unbound was seen to crash NumPy.
    is_class = isinstance(value, type)
    if not is_class and hasattr(value, "__dlpack__"):
        return _dlpack(value, what)
    _check_numbers(value, what)
    if not is_class and (hasattr(value, "__array__") or isinstance(value, list | tuple | int | float)):
        array = _converted(cast("Any", value), what)
        if array.dtype != object:
            return array
    given = cast("object", value)
    raise ArgumentTypeError(
        f"{what} must be a NumPy array or have __dlpack__ or __array__, "
        f"got {format_value(given)} of type {type(given).__name__}"
    )


def _check_numbers(value: object, what: str, depth: int = 1) -> None:
    """Refuses arrays inside a list: NumPy would stack them to one of another shape, and the op would run on that.

    Raises:
        ArgumentTypeError: there is one.
    """
    if (
        not isinstance(value, list | tuple) or depth > DEEPEST
    ):  # NumPy says what is wrong with anything deeper
        return
    for item in cast("Sequence[object]", value):
        _check_numbers(item, what, depth + 1)
        if not isinstance(item, np.generic) and (hasattr(item, "__array__") or hasattr(item, "__dlpack__")):
            raise ArgumentTypeError(
                f"{what} must be one array, got a list that holds a {type(item).__name__}; "
                "pass the array itself, or np.stack(…) where an array of arrays is meant"
            )


def _converted(value: Any, what: str) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError, BufferError) as error:
        raise ArgumentError(
            f"{what} of type {type(value).__name__} can't become an array ({one_line(error)}); "
            "pass a NumPy array"
        ) from error


def pinned(arrays: Iterable[Array]) -> tuple[object, ...]:
    """What keeps NumPy from moving the memory of these arrays, as long as it lives.

    Whoever remembers an address must hold more than the array: `resize(…, refcheck=False)` frees the memory of an array
    that others still hold. NumPy refuses that to an array that a weak reference points to.
    """
    pins: list[object] = []
    for array in arrays:
        owner: object = array
        while isinstance(owner, np.ndarray):
            pins.append(weakref.ref(owner))
            owner = owner.base
    return tuple(pins)


ALIGNMENT = 64
"""Bytes of a cache line."""


def aligned_bytes(nbytes: int) -> Array:
    """Uninitialised memory that begins at a cache line, so that no two such arrays share one."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


LARGE = 1 << 18
"""Bytes from which results begin at a cache line. Resamplings of oneDNN (3.2 to 3.13) write what caches don't hold by
stores that end the process elsewhere; NumPy's large arrays begin 16 bytes behind the beginning of a page."""


def uninitialised(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """`np.empty`, at a cache line where it is large.

    Raises:
        MemoryError, ValueError: as by NumPy.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LARGE:
        return np.empty(shape, dtype)
    return aligned_bytes(nbytes).view(dtype).reshape(shape)


BEGINNING = 4096
"""Elements that are looked at before all are."""
SEVEN_BITS = 64
"""The largest of weights that the sum of two products by u8 fits 16 bits of: 2 · 64 · 255 = 32,640."""


def in_seven_bits(array: Array) -> bool:
    """Whether it is of s8 and has nothing beyond `SEVEN_BITS`, above zero and below.

    CPUs without VNNI add up two products in 16 bits, and quantisers leave a bit out for them,
    which is called `reduce_range`.
    """
    if array.dtype != np.int8 or array.size == 0:
        return False
    # The beginning tells of most that have 8, which may lie in a file that nobody else reads.
    looked_at = (array.ravel("K")[:BEGINNING], array)
    return all(one.min() >= -SEVEN_BITS and one.max() <= SEVEN_BITS for one in looked_at)


def begins_at_a_line(array: Array) -> bool:
    """Whether it is small, or begins at a cache line."""
    return array.nbytes < LARGE or address(array) % ALIGNMENT == 0


def address(array: Array) -> int:
    """Address of the first element."""
    return cast("int", array.__array_interface__["data"][0])
