"""Points that all processes reach together, or not at all."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ...ops.records import define
from .step import Communicator


@define
class Meeting:
    """What a process brings to a meeting.

    Attributes:
        value: must be the same in all processes.
        weight: how much this process counts in means from here on.
        needed: whether there is one where nothing fails.
    """

    value: object = None
    weight: float = 1.0
    needed: bool = True


@contextmanager
def meeting(comm: Communicator | None, what: str) -> Generator[Meeting]:
    """Has all processes meet behind a block that each runs alone: where one fails in it, all stop there.

    Args:
        comm: None for one process alone.
        what: where they meet, for errors.

    Raises:
        ResourceError: another process has failed, or is somewhere else, or brings another value.
    """
    brought = Meeting()
    try:
        yield brought
    except Exception as error:
        if comm is not None:
            comm.meet(what, failure=error)
        raise
    if comm is not None and brought.needed:
        comm.meet(what, brought.value, weight=brought.weight)
