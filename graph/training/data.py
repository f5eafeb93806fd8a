"""Batches of arrays in an order that a seed decides, and batches that others make, under the names of inputs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from operator import length_hint
from typing import Any, Protocol, cast, overload

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, ShapeError
from ...ops.values import format_value, integer, one_line
from ..runtime.arrays import Array
from ..runtime.tensor import plain_array
from .fitting import Batches, batches_of
from .prefetching import ahead, close, each_of

Transform = Callable[[dict[str, Array], np.random.Generator], Mapping[str, object]]
"""From the arrays of a batch, which it may write to, and random numbers of its own, to what is fed."""

Batch = Mapping[str, Any]
"""What is fed, arrays as a rule."""
SHUFFLE, TRANSFORM = 0, 1
"""What random numbers are for: each has a stream of its own."""


class Column(Protocol):
    """What holds one thing of every example: an array, a memory map, a dataset of h5py or zarr, a list of arrays."""

    def __getitem__(self, index: Any, /) -> Any: ...


class Loader:
    """Batches of examples that lie in arrays; `Trainer.fit` asks it for those of each epoch.

    The order is that of the seed and the number of the epoch, however many threads prepare it and however many ranks
    share it: a batch of several ranks is the batch of one, each has its part, and the parts of a last batch that is
    smaller differ by at most one example. So every example is seen once in an epoch, and all ranks do as many steps.

    Args:
        arrays: by the names of inputs, with examples along the first axis. Arrays, memory maps and what reads like them
            (h5py, zarr), of which the rows of a batch alone are read; tensors of torch; lists of arrays of one shape,
            which become one array per batch.
        batch_size: examples of a step, of all ranks together.
        shuffle: whether each epoch has an order of its own.
        seed: of the order, and of the transform's random numbers.
        drop_last: whether to leave out what is left of an epoch beside whole batches.
        transform: called with the arrays of a batch and a generator of random numbers that depends on the seed, the
            epoch, the step and the rank alone; what it returns is fed.
        prefetch: how many batches threads prepare ahead of the step that takes them; 0 prepares each when it is taken.
        threads: that prefetch. A transform is called by several at once then.
        rank, size: which part of each batch is this process's, and of how many: those of a communicator.

    Raises:
        ArgumentError, ArgumentTypeError, ShapeError: an argument does not fit, or there is no batch.
    """

    def __init__(
        self,
        arrays: Mapping[str, Column],
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Transform | None = None,
        prefetch: int = 0,
        threads: int = 1,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.batch_size = whole(batch_size, "Loader: batch_size", 1)
        self.seed = whole(seed, "Loader: seed")
        self.prefetch = whole(prefetch, "Loader: prefetch", 0)
        self.threads = whole(threads, "Loader: threads", 1)
        self.size = whole(size, "Loader: size", 1)
        self.rank = whole(rank, "Loader: rank", 0)
        if self.rank >= self.size:
            raise ArgumentError(f"Loader: rank must be below size, {self.size}, got {self.rank}")
        if transform is not None and not callable(transform):
            raise ArgumentTypeError(
                f"Loader: transform must be a function of a batch and random numbers, got {format_value(transform)}"
            )
        self.shuffle, self.drop_last, self.transform = shuffle, drop_last, transform
        self._columns = _columns(arrays)
        self.examples = _length(*next(iter(self._columns.items())))
        batches, rest = divmod(self.examples, self.batch_size)
        self._batches = batches + (rest > 0 and not drop_last)
        if not self._batches:
            raise ArgumentError(
                f"Loader: there are {self.examples} examples, and drop_last leaves no batch of {self.batch_size}; "
                "give a smaller batch_size"
                if self.examples
                else "Loader: there are no examples; the arrays have length 0"
            )

    def __call__(self, epoch: int) -> Sequence[Batch]:
        """The batches of an epoch; each is made when it is asked for."""
        order = None
        if self.shuffle:
            order = self._random(SHUFFLE, epoch).permutation(self.examples)
        return _Epoch(self, epoch, order, range(self._batches))

    def __iter__(self) -> Iterator[Batch]:
        """The batches of epoch 0, for `Trainer.validate`, say."""
        return iter(self(0))

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return self._batches

    def __repr__(self) -> str:
        part = f", rank {self.rank} of {self.size}" if self.size > 1 else ""
        return f"Loader({self.examples} examples, {len(self)} batches of {self.batch_size}{part})"

    def batch(self, epoch: int, order: Array | None, step: int) -> Batch:
        """The part of a batch that is this rank's.

        Args:
            order: of the examples in that epoch; None where it is their own.
            step: number of the batch in the epoch.

        Raises:
            ArgumentTypeError, ShapeError: the transform returns no mapping; examples in a list have different shapes.
        """
        start = step * self.batch_size
        length = min(self.batch_size, self.examples - start)
        first = start + self.rank * length // self.size
        end = start + (self.rank + 1) * length // self.size
        if self.transform is None:
            return {name: _rows(name, column, order, first, end) for name, column in self._columns.items()}
        # A part without examples has the types and other sizes of one example that is transformed.
        empty = first == end
        some = (start, start + 1) if empty else (first, end)
        given = {name: _owned(_rows(name, column, order, *some)) for name, column in self._columns.items()}
        found = cast("object", self.transform(given, self._random(TRANSFORM, epoch, step, self.rank)))
        if not isinstance(found, Mapping):
            raise ArgumentTypeError(
                f"Loader: transform must return a mapping from names of inputs to arrays, got {format_value(found)}"
            )
        feeds = cast("Batch", found)
        if not empty:
            return feeds
        return {name: plain_array(value, f"Loader: {name!r}")[:0] for name, value in feeds.items()}

    def _random(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed % (1 << 64), spawn_key=key))


class _Epoch(Sequence[Batch]):
    """Batches of one epoch, or some of them, which are made when they are asked for."""

    def __init__(self, loader: Loader, epoch: int, order: Array | None, steps: range) -> None:
        self._loader, self._epoch, self._order, self._steps = loader, epoch, order, steps

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...

    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(index, slice):
            return _Epoch(self._loader, self._epoch, self._order, self._steps[index])
        return self._loader.batch(self._epoch, self._order, self._steps[index])

    def __iter__(self) -> Iterator[Batch]:
        loader, epoch, order = self._loader, self._epoch, self._order
        if not loader.prefetch:
            return (loader.batch(epoch, order, step) for step in self._steps)
        tasks = ((lambda step=step: loader.batch(epoch, order, step)) for step in self._steps)
        return ahead(tasks, loader.prefetch, loader.threads)


def _columns(arrays: object) -> dict[str, Column]:
    if not isinstance(arrays, Mapping):
        raise ArgumentTypeError(
            f"Loader: arrays must be a mapping from names of inputs to arrays, got a {type(arrays).__name__}"
        )
    found: dict[str, Column] = {}
    for name, given in cast("Mapping[object, object]", arrays).items():
        if not isinstance(name, str):
            raise ArgumentTypeError(f"Loader: names of inputs must be strings, got {format_value(name)}")
        found[name] = _column(name, given)
    if not found:
        raise ArgumentError("Loader: there are no arrays; give one for each input, by name")
    lengths = {name: _length(name, column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise ShapeError(
            "Loader: all arrays must have as many examples, got "
            + ", ".join(f"{length} of {name!r}" for name, length in lengths.items())
        )
    return found


def _column(name: str, given: Any) -> Column:
    what = f"Loader: {name!r}"
    if isinstance(given, np.memmap):
        return cast("Column", given)  # as it is, so that it is known for one
    if isinstance(given, np.ndarray) or hasattr(given, "__dlpack__") or hasattr(given, "iloc"):
        return plain_array(cast("object", given), what)  # of pandas too, whose rows go by labels
    has_shape = hasattr(given, "shape")
    reads_rows = hasattr(given, "__getitem__") and (has_shape or hasattr(given, "__len__"))
    if isinstance(given, Mapping | str | bytes) or not reads_rows:
        raise ArgumentTypeError(
            f"{what} must be an array or a list of arrays, got {format_value(cast('object', given))}"
        )
    if not has_shape and len(given) and not np.ndim(given[0]):  # a list of numbers
        return plain_array(np.asarray(given[:]), what)
    return given


def _length(name: str, column: Any) -> int:
    if not hasattr(column, "shape"):
        return len(column)
    if not len(column.shape):  # a tuple, or what else a library has for one
        raise ShapeError(f"Loader: {name!r} must have an axis of examples, got one number")
    return int(column.shape[0])


def _in_memory(column: object) -> bool:
    return isinstance(column, np.ndarray) and not isinstance(column, np.memmap)


def _rows(name: str, column: Any, order: Array | None, first: int, end: int) -> Array:
    """Rows of a column: read-only where they are the user's memory."""
    if _in_memory(column):
        rows: Array = column[first:end] if order is None else column[order[first:end]]
        if order is None:
            rows.flags.writeable = False
        return rows
    if hasattr(column, "shape"):
        return np.array(column[first:end]) if order is None else _scattered(column, order[first:end])
    picked = range(first, end) if order is None else [int(n) for n in order[first:end]]
    each = [plain_array(column[n], f"Loader: example {n} of {name!r}") for n in picked]
    if not each:
        return plain_array(column[0], f"Loader: example 0 of {name!r}")[None][:0]
    try:
        return np.stack(each)
    except ValueError as error:
        raise ShapeError(
            f"Loader: examples of {name!r} must have one shape, to be a batch ({one_line(error)}); pad them, or make "
            "batches of examples of one shape yourself"
        ) from None


def _scattered(column: Any, index: Array) -> Array:
    """Rows that are read as they lie, for the disk's sake and since h5py wants them so, in the order of `index`."""
    lying = np.argsort(index)
    read: Array = np.asarray(column[index[lying]])
    rows = np.empty_like(read)
    rows[lying] = read
    return rows


def _owned(array: Array) -> Array:
    return array if array.flags.writeable and array.base is None else array.copy()


def whole(value: object, what: str, least: int | None = None) -> int:
    """An integer of at least so much.

    Raises:
        ArgumentTypeError, ArgumentError: it is none, or less.
    """
    number = None if isinstance(value, bool) else integer(value)
    if number is None:
        raise ArgumentTypeError(f"{what} must be an integer, got {format_value(value)}")
    if least is not None and number < least:
        raise ArgumentError(f"{what} must be {least} or more, got {number}")
    return number


class Prefetch:
    """Batches of any kind, drawn by a thread some steps ahead, in their order.

    What drawing them raises reaches the step that would have had the batch, and the thread ends with the epoch.

    Args:
        batches: as `Trainer.fit` takes them.
        ahead: how many are kept at most.

    Raises:
        ArgumentError, ArgumentTypeError: `ahead` is not 1 or more; batches are none.
    """

    def __init__(self, batches: Batches, ahead: int = 2) -> None:
        self._batches = batches
        self.ahead = whole(ahead, "Prefetch: ahead", 1)

    def __call__(self, epoch: int) -> Iterable[Batch]:
        """The batches of an epoch."""
        return _Ahead(batches_of(self._batches, epoch, "Prefetch: batches"), self.ahead)

    def __iter__(self) -> Iterator[Batch]:
        """The batches of epoch 0."""
        return iter(self(0))


def _hint(batches: object) -> int:
    """For `__length_hint__`: how many there are, which 0 would say too of what does not know it."""
    known = length_hint(batches, -1)
    return NotImplemented if known < 0 else known


class _Ahead:
    def __init__(self, batches: Iterable[Batch], count: int) -> None:
        self._batches, self._count = batches, count

    def __length_hint__(self) -> int:
        return _hint(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return ahead(each_of(self._batches), self._count)


class FromTorch:
    """Batches of a `DataLoader` of torch, or of whatever gives tuples or mappings, under the names of inputs.

    At the beginning of each epoch a sampler or data set that has `set_epoch`, as `DistributedSampler` has, is told its
    number.

    Args:
        loader: gives tuples of tensors or arrays, mappings, or one tensor, and can be gone through once an epoch.
        names: of the inputs, for tuples in their order; of mappings the entries with these names, or a mapping from
            names of entries to names of inputs. None feeds mappings as they are.
        seed: of the order: at the beginning of each epoch the generator of the loader gets a seed made of this one and
            of the epoch's number, so that training can go on in its midst. It must have one, `DataLoader(…,
            generator=torch.Generator())`. None leaves the order to torch.

    Raises:
        ArgumentError, ArgumentTypeError: an argument does not fit.
    """

    def __init__(
        self,
        loader: Iterable[object],
        names: Sequence[str] | Mapping[str, str] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        if isinstance(names, str):
            names = [names]
        self._loader = loader
        self._names = names
        self._seed = None if seed is None else whole(seed, "FromTorch: seed")
        if seed is not None and getattr(loader, "generator", None) is None:
            raise ArgumentError(
                "FromTorch: seed is for a loader with a generator of its own; make it with "
                "DataLoader(…, generator=torch.Generator())"
            )

    def __call__(self, epoch: int) -> Iterable[Batch]:
        """The batches of an epoch."""
        loader: Any = self._loader
        grouped = getattr(loader, "batch_sampler", None)
        parts = [getattr(loader, name, None) for name in ("sampler", "dataset")]
        parts += [grouped, getattr(grouped, "sampler", None), loader]
        for one in {id(part): part for part in parts}.values():
            tell = getattr(one, "set_epoch", None)
            if callable(tell):
                tell(epoch)
        if self._seed is not None:
            drawn = np.random.SeedSequence(self._seed % (1 << 64), spawn_key=(SHUFFLE, epoch))
            loader.generator.manual_seed(int(drawn.generate_state(1, np.uint64)[0] >> 1))
        return _Named(self._loader, self._named)

    def __iter__(self) -> Iterator[Batch]:
        """The batches of epoch 0."""
        return iter(self(0))

    def __len__(self) -> int:
        """How many batches an epoch has, where the loader knows."""
        return len(cast("Sized", self._loader))

    def _named(self, batch: object) -> Batch:
        names = self._names
        if isinstance(batch, Mapping):
            entries = cast("Mapping[str, object]", batch)
            if names is None:
                return entries
            pairs = names.items() if isinstance(names, Mapping) else [(n, n) for n in names]
            missing = next((entry for entry, _ in pairs if entry not in entries), None)
            if missing is not None:
                raise ArgumentError(
                    f"FromTorch: a batch has no {missing!r}; it has {', '.join(map(repr, entries))}"
                )
            return {name: entries[entry] for entry, name in pairs}
        parts = list(cast("Sequence[object]", batch)) if isinstance(batch, tuple | list) else [batch]
        if names is None or isinstance(names, Mapping) or len(names) != len(parts):
            told = "no names in their order" if names is None or isinstance(names, Mapping) else list(names)
            raise ArgumentError(
                f"FromTorch: a batch is {len(parts)} arrays, got {told}; give FromTorch(loader, [name of each])"
            )
        return dict(zip(names, parts, strict=True))


class _Named:
    """Batches, once over, each put into words."""

    def __init__(self, batches: Iterable[object], named: Callable[[object], Batch]) -> None:
        self._batches, self._named = batches, named

    def __length_hint__(self) -> int:
        return _hint(self._batches)

    def __iter__(self) -> Generator[Batch]:
        iterator = iter(self._batches)
        try:
            for batch in iterator:
                yield self._named(batch)
        finally:
            close(iterator, self._batches)
