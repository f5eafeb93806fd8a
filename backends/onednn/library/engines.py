"""From a user's engine to the library's."""

from __future__ import annotations

from ....graph.runtime.engine import Engine
from .crowding import warn_of_crowd
from .primitive import NativeEngine
from .waiting import LOADED_BY_OTHERS


def native_engine(engine: Engine) -> NativeEngine:
    """The library's engine behind a user's; the first one warns where threads will wait for those of others."""
    made = engine.resource("onednn", lambda: NativeEngine(machine_code=engine.machine_code))
    if made.lib.waiting == LOADED_BY_OTHERS:
        warn_of_crowd()
    return made
