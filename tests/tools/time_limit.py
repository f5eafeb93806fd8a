"""A time for what may not end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TooLong(BaseException):
    """It did not end in time. No `Exception`, for what is tried may catch all of these."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises TooLong in this block after so many seconds; for the main thread."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _stop(*_: object) -> None:
    raise TooLong
