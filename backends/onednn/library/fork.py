"""Running the library where the calling thread can't: in a forked child, within a parallel region, in an arena.

The library's threads belong to GNU OpenMP, whose team of a thread does not survive fork: the next parallel
region of the thread that forked would wait for workers that are not there. A thread that is started after the fork
gets a team of its own, so in a child the forking thread hands its calls to one such thread. So does a thread that
stands in a parallel region of somebody else, which gets no team, and one in an arena of TBB of another size.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from .loading import load

P = ParamSpec("P")
R = TypeVar("R")

_stale_thread: int | None = None
_helper: ThreadPoolExecutor | None = None


def _in_child() -> None:
    global _stale_thread, _helper
    if load.cache_info().currsize:
        _stale_thread = threading.get_ident()
        _helper = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def run(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `function`, on a helper thread where the calling one can't use the library any more."""
    global _helper
    stale = _stale_thread is not None and _stale_thread == threading.get_ident()
    if not stale and not load().runtime.is_foreign():
        return function(*args, **kwargs)
    if _helper is None:
        _helper = ThreadPoolExecutor(1, thread_name_prefix="onednn-elsewhere")
    in_this_context = copy_context().run  # profiles know by it which partition is running
    return _helper.submit(in_this_context, partial(function, *args, **kwargs)).result()
