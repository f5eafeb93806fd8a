"""Ctrl-C, held back where it would leave things half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Generator[None]:
    """Lets Ctrl-C wait until the block has ended; a second one does not wait.

    In threads, and where the program takes the signal in another way than by a function in Python, nothing is done:
    Python interrupts the main thread alone.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    heard: list[FrameType | None] = []

    def note(number: int, frame: FrameType | None) -> None:
        heard.append(frame)
        if len(heard) > 1:
            handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if len(heard) == 1:
            handler(signal.SIGINT, heard[0])
