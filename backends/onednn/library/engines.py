"""From a user's engine to the library's."""

from __future__ import annotations

from ....graph.runtime.engine import Engine
from .primitive import NativeEngine


def native_engine(engine: Engine) -> NativeEngine:
    """The library's engine behind a user's."""
    return engine.resource("onednn", lambda: NativeEngine(machine_code=engine.machine_code))
