"""Engine and Stream: where and in which order compiled partitions run."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from ...ops.errors import ArgumentError, ArgumentTypeError, ResourceError
from ...ops.values import format_value, integer
from .layouts import Layouts
from .locking import Lock
from .threads import checked_threads

T = TypeVar("T")


MACHINE_CODE = "ONEDNN_GRAPH_MACHINE_CODE"
"""Environment variable: 0 where no machine code of ours may be placed, 1 or nothing where it may."""
_WORDS = {"": True, "1": True, "on": True, "true": True, "0": False, "off": False, "false": False}


def machine_code_allowed() -> bool:
    """Whether the environment allows machine code of ours.

    Raises:
        ArgumentError: it says neither yes nor no.
    """
    text = os.environ.get(MACHINE_CODE, "")
    if text.lower() not in _WORDS:
        raise ArgumentError(
            f"the environment variable {MACHINE_CODE} must be 0 or 1, got {format_value(text)}"
        )
    return _WORDS[text.lower()]


class Engine:
    """A device. There is one kind, `cpu`, with index 0.

    Args:
        kind, index: as above.
        machine_code: whether backends may place loops of machine code of ours in executable memory, which drive the
            library and convert f16; without them everything works the same, more slowly. The environment
            variable `ONEDNN_GRAPH_MACHINE_CODE=0` forbids it in the whole process. The library generates its own
            kernels either way; `backend="numpy"` needs no executable memory at all.
        threads: how many threads kernels use that are compiled for it; None for what `get_num_threads` tells.

    An engine owns the native handles that backends make for it, and frees them when it is closed or
    collected. Usable as a context manager. It belongs to its process and can be neither copied nor pickled.

    Attributes:
        machine_code: whether machine code may be placed: if neither the argument nor the environment forbids it.
        threads: as above.
        layouts: the opaque layouts that were given out for it.

    Raises:
        ArgumentError: another kind or index, or a value of the environment variable that means nothing.
        ArgumentTypeError: machine_code is no bool, or threads no number.
    """

    def __init__(
        self, kind: str = "cpu", index: int = 0, *, machine_code: bool = True, threads: int | None = None
    ) -> None:
        check_kind(kind)
        if not isinstance(machine_code, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"machine_code must be True or False, got {format_value(machine_code)}")
        if integer(index) != 0:
            raise ArgumentError(f"engine index must be 0, there is one CPU engine, got {format_value(index)}")
        self.kind = kind
        self.index = 0
        self.machine_code = machine_code_allowed() and machine_code
        self.threads = checked_threads(threads)
        self.layouts = Layouts()
        self._resources: dict[Hashable, Any] = {}
        self._lock = Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_open(self) -> None:
        """Raises ResourceError when the engine is closed."""
        if self._closed:
            raise ResourceError("the engine is closed; make a new Engine and compile again")

    def resource(self, key: Hashable, make: Callable[[], T]) -> T:
        """A backend's object for this engine, made at first use and dropped when the engine closes."""
        with self._lock:
            self.check_open()
            if key not in self._resources:
                self._resources[key] = make()
            return cast("T", self._resources[key])

    def close(self) -> None:
        """Closes the engine: nothing compiled for it runs any more. Closing twice is allowed."""
        with self._lock:
            self._closed = True
            self._resources.clear()
            self.layouts.clear()

    def __enter__(self) -> Engine:
        self.check_open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> str:
        raise ArgumentTypeError(
            "an engine, and what belongs to it, lives in one process and can't be copied or pickled; make an "
            "Engine where it is needed, and pass arrays on"
        )

    def __repr__(self) -> str:
        return f"Engine('{self.kind}', {self.index}){' closed' if self._closed else ''}"


class Stream:
    """An order of execution on an engine. On the CPU every execution is finished when it returns."""

    def __init__(self, engine: Engine) -> None:
        check_engine(engine)
        engine.check_open()
        self.engine = engine

    def wait(self) -> None:
        """Waits until everything submitted has finished: on the CPU it has already."""
        self.engine.check_open()


def check_kind(kind: object) -> None:
    """Raises ArgumentError for another kind of device than 'cpu'."""
    if not isinstance(kind, str) or kind != "cpu":
        raise ArgumentError(f"engine kind must be 'cpu', the only one there is, got {format_value(kind)}")


def check_engine(engine: object) -> None:
    """Raises ArgumentTypeError for what is no Engine."""
    if not isinstance(engine, Engine):
        raise ArgumentTypeError(
            f"engine must be an onednn_graph.Engine, got {format_value(engine)} of type {type(engine).__name__}; "
            "make one with Engine()"
        )


_default: list[Engine] = []
_default_lock = Lock()


def default_engine() -> Engine:
    """The engine that is used where none is given; made again when a user has closed it."""
    with _default_lock:
        if not _default or _default[0].closed:
            _default[:] = [Engine()]
        return _default[0]
