"""Engine and Stream: where and in which order compiled partitions run."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from ..ops.errors import ArgumentError, ArgumentTypeError, ResourceError
from ..ops.values import integer, shown
from .layouts import Layouts
from .locking import Lock

T = TypeVar("T")


class Engine:
    """A device. There is one kind, `cpu`, with index 0.

    An engine owns the native handles that backends make for it, and frees them when it is closed or
    collected. Usable as a context manager. It belongs to its process and can be neither copied nor pickled.

    Attributes:
        layouts: the opaque layouts that were given out for it.

    Raises:
        ArgumentError: another kind or index.
    """

    def __init__(self, kind: str = "cpu", index: int = 0) -> None:
        check_kind(kind)
        if integer(index) != 0:
            raise ArgumentError(f"engine index must be 0, there is one CPU engine, got {shown(index)}")
        self.kind = kind
        self.index = 0
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
        raise ArgumentError(f"engine kind must be 'cpu', the only one there is, got {shown(kind)}")


def check_engine(engine: object) -> None:
    """Raises ArgumentTypeError for what is no Engine."""
    if not isinstance(engine, Engine):
        raise ArgumentTypeError(
            f"engine must be an onednn_graph.Engine, got {shown(engine)} of type {type(engine).__name__}; "
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
