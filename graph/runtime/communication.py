"""What ops need of a communicator, and the communicators of this process by number."""

from __future__ import annotations

import itertools
from typing import Protocol

from ...ops.errors import ResourceError
from .arrays import Array


class Communicator(Protocol):
    """Processes that train one model together, as each of them sees it.

    Every process calls the same functions in the same order. A bucket is a buffer of tensors whose mean over the
    processes is made in one go, while the caller does other things.

    Attributes:
        rank: number of this process, from 0.
        size: how many there are.
        key: number of the communicator in this process, for attributes of ops.
        share: of this process in means, 1 where all have equally much.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def key(self) -> int: ...

    @property
    def share(self) -> float: ...

    def put(self, bucket: int, piece: int, values: Array) -> None:
        """Copies a tensor into its place of a bucket; the last one of them starts the exchange."""
        ...

    def get(self, bucket: int, piece: int, out: Array) -> None:
        """Waits for a bucket, and copies the mean of one of its tensors."""
        ...

    def total(self, values: Array, out: Array) -> None:
        """Waits for all processes, and writes the sum of what they have."""
        ...


_keys = itertools.count()
_open: dict[int, Communicator] = {}


def new_key() -> int:
    """A number that no communicator of the process has had."""
    return next(_keys)


def enter(communicator: Communicator) -> None:
    """Lets ops find a communicator by its key until `leave`."""
    _open[communicator.key] = communicator


def leave(communicator: Communicator) -> None:
    """Takes it off the list; ops that name it are errors from then on."""
    _open.pop(communicator.key, None)


def find(key: int, who: str) -> Communicator:
    """The communicator of that key.

    Raises:
        ResourceError: the process has none, any more or at all.
    """
    if key not in _open:
        raise ResourceError(
            f"{who}: attribute 'communicator' must be the number of an open communicator of this process, got {key}; "
            "make the graph in the process that runs it, and close its communicator after the last run"
        )
    return _open[key]
