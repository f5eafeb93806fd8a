"""Memory descriptors: shape, data type and layout of a tensor as the library knows them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import c_int
from functools import lru_cache

from ....graph.runtime.arrays import numpy_type
from ....graph.runtime.cached import cached
from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from ....ops.records import frozen
from .enumerators import Query
from .loading import DATA_TYPES, FORMAT_TAG_ANY, LATER_DATA_TYPES, Dims, Library, dims

TYPE_NUMBERS = DATA_TYPES | LATER_DATA_TYPES
"""`dnnl_data_type_t` of all types that a descriptor may have."""
TYPES_BY_NUMBER = {number: data_type for data_type, number in TYPE_NUMBERS.items()}
ITEM_SIZES = {data_type: numpy_type(data_type).itemsize for data_type in TYPE_NUMBERS}
"""Bytes that an element takes at most: two of 4 bits share one."""


_ANY, _BLOCKED = 1, 2
"""`dnnl_format_kind_t`: not chosen yet, and strides with blocks or without."""
LARGEST_DIM = 2**31 - 1
"""The largest axis that the library is given: its kernels count in 32 bits, and divide by zero beyond."""


def canonical_strides(
    shape: Sequence[int], strides: Sequence[int], *, channels_last: bool = False
) -> tuple[int, ...]:
    """The strides with those of axes of one element, which mean nothing, replaced by what follows from the others.

    The library reads layouts off all strides, and crashes or computes nonsense where those of axes of one element do
    not fit; its primitive cache takes descriptors as equal that differ in nothing else. So for one kind of primitive
    every tensor that lies in one way has one descriptor. Axes that lie in no known order have those of one element
    outermost.

    Args:
        shape: sizes.
        strides: in elements.
        channels_last: what lies channels-last, with the channels as axis 1, and row-major too is taken as the former;
            kernels for images, which go by it, are faster then.
    """
    if all(d != 1 for d in shape):
        return tuple(strides)
    rank = len(shape)
    row_major = tuple(range(rank))
    orders = [row_major]
    if rank > 2:
        orders.insert(0 if channels_last and shape[1] != 1 else 1, (0, *range(2, rank), 1))
    for order in orders:
        steps = [strides[a] for a in order if shape[a] != 1]
        if steps == sorted(steps, reverse=True):
            return _filled(shape, strides, order)
    outermost = max((s * d for d, s in zip(shape, strides, strict=True) if d != 1), default=1)
    return tuple(s if d != 1 else outermost for d, s in zip(shape, strides, strict=True))


def _filled(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides for axes of one element, as if the axes lay in this order."""
    made, step = list(strides), 1
    for axis in reversed(order):
        if shape[axis] == 1:
            made[axis] = step
        step = made[axis] * max(shape[axis], 1)
    return tuple(made)


def packed(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of the axes in the same order as they lie, without gaps."""
    made, step = [0] * len(shape), 1
    for axis in sorted(range(len(shape)), key=lambda a: (strides[a], shape[a] != 1, -a)):
        made[axis] = step
        step *= max(shape[axis], 1)
    return canonical_strides(shape, made)


class MemoryDesc:
    """An owned `dnnl_memory_desc_t`, which never changes; equality is the library's.

    Attributes:
        origin: of one that a primitive chose, what tells that choice from others; empty else.
    """

    def __init__(self, lib: Library, handle: int, origin: tuple[object, ...] = ()) -> None:
        self.lib = lib
        self.handle = handle
        self.origin = origin

    @classmethod
    def strided(
        cls,
        lib: Library,
        shape: Sequence[int],
        data_type: DataType,
        strides: Sequence[int],
    ) -> MemoryDesc:
        """A plain layout; strides in elements, those of axes of one element as `canonical_strides` gives them.

        Raises:
            LibraryError: strides that the library does not allow, such as overlapping ones, or an axis too large.
        """
        return _strided(lib, tuple(shape), data_type, tuple(strides))

    @classmethod
    def any(cls, lib: Library, shape: Sequence[int], data_type: DataType) -> MemoryDesc:
        """A layout that the primitive chooses.

        Raises:
            LibraryError: an axis too large.
        """
        _check_sizes(shape)
        return cls(
            lib,
            lib.new(
                "dnnl_memory_desc_create_with_tag",
                len(shape),
                dims(tuple(shape)),
                TYPE_NUMBERS[data_type],
                FORMAT_TAG_ANY,
            ),
        )

    @classmethod
    def clone(cls, lib: Library, handle: int, origin: tuple[object, ...] = ()) -> MemoryDesc:
        """A copy of a descriptor that something else owns."""
        return cls(lib, lib.new("dnnl_memory_desc_clone", handle), origin)

    def permuted(self, order: Sequence[int]) -> MemoryDesc:
        """The same memory with its axes in another order, as in `numpy.transpose`."""
        places = [0] * len(order)
        for place, axis in enumerate(order):
            places[axis] = place
        return MemoryDesc(
            self.lib,
            self.lib.new("dnnl_memory_desc_permute_axes", self.handle, (c_int * len(places))(*places)),
            (*self.origin, *order) if self.origin else (),
        )

    @cached
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._query_dims(Query.dims)[: self._rank]

    @cached
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements of a plain layout; None for a blocked one, and for one that is not chosen yet."""
        return None if self.blocks else self._outer_strides or None

    @cached
    def _rank(self) -> int:
        return self._query_int(Query.ndims_s32)

    @cached
    def blocks(self) -> tuple[int, ...]:
        """Sizes of the inner blocks; none of a plain layout."""
        count = self._query_int(Query.inner_nblks_s32)
        return self._query_dims(Query.inner_blks)[:count] if count else ()

    @cached
    def block_axes(self) -> tuple[int, ...]:
        """The axis of each inner block."""
        count = len(self.blocks)
        return self._query_dims(Query.inner_idxs)[:count] if count else ()

    @cached
    def _outer_strides(self) -> tuple[int, ...]:
        return self._query_dims(Query.strides)[: self._rank]

    @property
    def outer_strides(self) -> tuple[int, ...]:
        """Strides in elements of the axes, of whole blocks where there are any."""
        return self._outer_strides

    @cached
    def has_gaps(self) -> bool:
        """Whether there is memory between the elements of a plain layout that belongs to none of them."""
        strides, shape = self.strides, self.shape
        return strides is not None and any(
            have != want and d != 1
            for d, have, want in zip(shape, strides, packed(shape, strides), strict=True)
        )

    @cached
    def has_more(self) -> bool:
        """Whether the library keeps something behind a plain layout's elements, as the sums of 8-bit weights.

        Only the library can make it. What it counts as the elements' own memory is the widest axis, extent times
        stride, which is past the last element where an axis of one element has a large stride.
        """
        strides = self.strides
        if strides is None or 0 in self.shape:
            return False
        axes = list(zip(self.shape, strides, strict=True))
        reach = 1 + sum((d - 1) * s for d, s in axes)
        return self.nbytes > max([reach, *(d * s for d, s in axes)]) * self.itemsize

    def canonical(self, *, channels_last: bool = False) -> MemoryDesc:
        """The same memory with `canonical_strides`; a blocked layout is as it is."""
        strides, shape = self.strides, self.shape
        if strides is None:
            return self
        wanted = canonical_strides(shape, strides, channels_last=channels_last)
        return self if wanted == strides else MemoryDesc.strided(self.lib, shape, self.data_type, wanted)

    @property
    def last_stride(self) -> int | None:
        """Elements from one position of the last axis to the next, in blocks too; None if no layout is chosen."""
        return self._outer_strides[-1] if self._outer_strides else None

    @cached
    def has_stray_ones(self) -> bool:
        """Whether an axis of one element has another stride than rows or channels-last images give it.

        Nobody reads by it, but kernels of 3.3 and later tell how far apart the elements are by the stride of the last
        axis, and no longer look whether it is that of the layout that they take the image for.
        """
        if not self.blocks:
            return self.canonical(channels_last=True) is not self
        step = math.prod(self.blocks)
        for size, stride in zip(self.shape[:1:-1], self._outer_strides[:1:-1], strict=True):
            if size == 1 and stride != step:
                return True
            step *= size
        return False

    @cached
    def data_type(self) -> DataType:
        """Type of the elements."""
        return TYPES_BY_NUMBER[self._query_int(Query.data_type)]

    @cached
    def nbytes(self) -> int:
        """Bytes of a buffer for it."""
        return int(self.lib.c.dnnl_memory_desc_get_size(self.handle))

    def __eq__(self, other: object) -> bool:
        return other is self or (
            isinstance(other, MemoryDesc)
            and bool(self.lib.c.dnnl_memory_desc_equal(self.handle, other.handle))
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType] -- equality without hashing

    def _query_int(self, what: Query) -> int:
        value = c_int()
        self.lib.c.dnnl_memory_desc_query(self.handle, what, ctypes.byref(value))
        return value.value

    def _query_dims(self, what: Query) -> tuple[int, ...]:
        pointer = ctypes.POINTER(Dims)()
        self.lib.c.dnnl_memory_desc_query(self.handle, what, ctypes.byref(pointer))
        return tuple(pointer.contents) if pointer else ()

    @cached
    def facts(self) -> str:
        """All that the library tells of it: type, sizes, how it lies, and bytes."""
        rank = self._rank
        if rank == 0:
            return ""
        blocks, axes = self.blocks, self.block_axes
        types = (self._query_int(Query.data_type), self._query_int(Query.format_kind))
        return repr((*types, self.shape, self._padded, self._outer_strides, blocks, axes, self.nbytes))

    @cached
    def _padded(self) -> tuple[int, ...]:
        return self._query_dims(Query.padded_dims)[: self._rank]

    @cached
    def hidden(self) -> tuple[object, ...]:
        """What stands for that which the library does not tell: `origin`, where there is more than elements."""
        if not self.origin or self._rank == 0:
            return ()
        known = self._query_int(Query.data_type) in TYPES_BY_NUMBER
        if not known or self._query_int(Query.format_kind) not in (_ANY, _BLOCKED):
            return self.origin
        more = self.nbytes > math.prod(self._padded) * self.itemsize if self.blocks else self.has_more
        return self.origin if more else ()

    @property
    def itemsize(self) -> int:
        """Bytes of an element; of 4 bits, of two."""
        return ITEM_SIZES[self.data_type]

    @cached
    def run(self) -> int:
        """Elements that lie one behind the other without a gap: a block, or the fastest axes together."""
        if self.blocks:
            return math.prod(self.blocks)
        length = 1
        for stride, size in sorted(zip(self._outer_strides, self.shape, strict=False)):
            if size > 1:
                if stride != length:
                    break
                length *= size
        return length

    def describe(self) -> str:
        """The layout in words: axes from outermost to innermost, then blocks, `acdb16c`, say; `any` if not chosen."""
        return self._letters

    @cached
    def _letters(self) -> str:
        if self._rank == 0:
            return "empty"
        strides, blocks = self._outer_strides, self.blocks
        if not strides:
            return "any"
        axes = self.block_axes
        letters = "abcdefghijkl"[: self._rank]
        outer = sorted(range(self._rank), key=lambda axis: (-strides[axis], axis))
        return "".join(letters[a].upper() if a in axes else letters[a] for a in outer) + "".join(
            f"{size}{letters[axis]}" for size, axis in zip(blocks, axes, strict=True)
        )

    def __del__(self) -> None:
        self.lib.destroy("dnnl_memory_desc_destroy", self.handle)


@lru_cache(maxsize=4096)
def _strided(
    lib: Library, shape: tuple[int, ...], data_type: DataType, strides: tuple[int, ...]
) -> MemoryDesc:
    """One object for all tensors that lie in one way: a plan asks for the same ones many times."""
    _check_sizes(shape)
    name = "dnnl_memory_desc_create_with_strides"
    return MemoryDesc(lib, lib.new(name, len(shape), dims(shape), TYPE_NUMBERS[data_type], dims(strides)))


def _check_sizes(shape: Sequence[int]) -> None:
    if max(shape, default=0) > LARGEST_DIM:
        raise LibraryError(
            f"oneDNN's kernels count in 32 bits, and an axis of {list(shape)} has more than {LARGEST_DIM} elements"
        )


@frozen(eq=False)
class OpaqueLayout:
    """A layout that a primitive chose for an output, and the plain one of the same elements.

    Attributes:
        desc, plain: both of the same axes.
        own_axes: whether these are the tensor's axes, so that other primitives can take the tensor as it lies.
    """

    desc: MemoryDesc
    plain: MemoryDesc
    own_axes: bool = False

    def same(self, other: object) -> bool:
        """Whether a tensor that lies in the other may be read as lying in this."""
        return (
            isinstance(other, OpaqueLayout)
            and self.own_axes == other.own_axes
            and self.desc == other.desc
            and self.plain == other.plain
        )
