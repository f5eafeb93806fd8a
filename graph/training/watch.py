"""A watch over the processes that train together: who is lost, all know within seconds, and nobody goes on alone."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from ...ops.errors import LostRankWarning
from ...ops.records import frozen
from .neighbours import Exchange, Neighbour, connected

BEAT = 1.0
"""Seconds between two signs of life."""
GRACE = 4.0
"""As long as that a process may take to hear of a lost one by itself; then it is ended."""
ANSWER_SECONDS = 5.0
"""After which the question who is late has no answer."""
DEPTH = 4
"""How many calls of a late process are told, the innermost last."""


@frozen
class Loss:
    """A process that is lost.

    Attributes:
        rank: its number.
        why: how that was seen.
    """

    rank: int
    why: str

    def __str__(self) -> str:
        return f"rank {self.rank} is lost: {self.why}"


class Watch:
    """A thread that gives signs of life to the two neighbours in the ring, and passes on what it hears of others.

    A process that ends, however it does, closes its connections, which its neighbours see at once. One that is stopped,
    or whose machine is gone, gives no more signs. A process that computes for long still gives them. The time in which
    this process itself was stopped does not count.

    Args:
        rank: of this process.
        neighbours: the process before it and the one after it.
        silence: seconds without a sign after which a neighbour is lost.
        end: ends this process, where it does not hear by itself of a lost one; it is told why.
        beat, grace: see `BEAT`, `GRACE`.
    """

    def __init__(
        self,
        rank: int,
        neighbours: tuple[Neighbour, Neighbour],
        *,
        silence: float,
        end: Callable[[str], None],
        beat: float = BEAT,
        grace: float = GRACE,
    ) -> None:
        self._rank, self._neighbours = rank, neighbours
        self._silence, self._end, self._beat, self._grace = silence, end, beat, grace
        self._calls, self._at, self._since = 0, "its start", time.monotonic()
        self._loss: Loss | None = None
        self._lost_at = 0.0
        self._heard_of = False  # by the main thread
        self._awake = 0.0  # seconds in which this process was not stopped
        self._to_say: deque[tuple[object, threading.Event]] = deque()
        self._late: tuple[int, str] | None = None
        self._answered = threading.Event()
        self._ends = False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="onednn_graph ranks", daemon=True)
        _watches.add(self)
        self._thread.start()

    # --- for the process ---

    def note(self, calls: int, at: str) -> None:
        """Takes down how many calls that all make together have begun, and what the last is for."""
        self._calls, self._at, self._since = calls, at, time.monotonic()

    def loss(self) -> Loss | None:
        """Who is lost, if anybody; this process has heard of it then, and is not ended from here any more."""
        if self._loss is not None:
            self._heard_of = True
        return self._loss

    def fails(self, why: str) -> None:
        """Tells all that this process is lost, and returns when that is under way."""
        self._send({"lost": [self._rank, why]})

    def leaves(self) -> None:
        """Tells the neighbours that this process is going to end."""
        self._send({"left": True})

    def late(self) -> tuple[int, str] | None:
        """A process that has begun fewer of the calls of all than this one, and where it is; None if none says so."""
        self._answered.clear()
        self._send({"late": self._calls, "of": self._rank, "found": None})
        self._answered.wait(ANSWER_SECONDS)
        return self._late

    def close(self) -> None:
        """Ends the thread and the connections."""
        self._ends = True
        self._wake()
        self._thread.join()
        self.forget()
        _watches.discard(self)

    def forget(self) -> None:
        """Closes the connections; of a child process too, which has got them by fork and would hold them open."""
        for one in (*self._neighbours, self._waker, self._woken):
            one.close()

    # --- the thread ---

    def _send(self, word: object) -> None:
        sent = threading.Event()
        self._to_say.append((word, sent))
        self._wake()
        sent.wait(self._beat)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake, or has ended
            self._waker.send(b"\0")

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for one in self._neighbours:
                selector.register(one, selectors.EVENT_READ, one)
            last = time.monotonic()
            spoke = -self._beat
            while not self._ends:
                for key, _ in selector.select(self._beat):
                    if key.data is None:
                        self._woken.recv(1 << 12)
                    elif key.data.gone or not self._hears(key.data):
                        selector.unregister(key.fileobj)
                now = time.monotonic()
                slept = now - last > 2 * self._beat  # as all may have, with the machine
                self._awake += 0.0 if slept else now - last
                last = now
                for one in self._neighbours if slept else ():
                    one.heard = self._awake
                if self._awake - spoke >= self._beat:
                    spoke = self._awake
                    self._say(None)
                while self._to_say:
                    word, sent = self._to_say.popleft()
                    self._say(word)
                    sent.set()
                self._look()

    def _say(self, word: object) -> None:
        for one in self._neighbours:
            if not one.gone:
                one.say(word)

    def _hears(self, one: Neighbour) -> bool:
        """Takes what a neighbour has said; whether more may come."""
        words = one.words()
        if words:
            one.heard = self._awake
        for word in words:
            if word is not None:
                self._take(one, word)
        if one.gone and not one.left:
            self._lose(Loss(one.rank, "its process has ended without a word"), seen=True)
        return not one.gone

    def _take(self, one: Neighbour, word: dict[str, Any]) -> None:
        if "left" in word:
            one.left = True
        elif "lost" in word:
            self._lose(Loss(*word["lost"]), seen=False)
        elif word["of"] == self._rank:
            self._late = None if word["found"] is None else (word["found"][0], word["found"][1])
            self._answered.set()
        elif one is self._neighbours[0]:  # questions go one way around
            if word["found"] is None and self._calls < word["late"]:
                word["found"] = [self._rank, self._whereabouts()]
            self._neighbours[1].say(word)

    def _look(self) -> None:
        for one in self._neighbours:
            if self._awake - one.heard > self._silence and not (one.left or one.gone or one.runs()):
                why = f"it has given no sign of life for {self._silence:g} s"
                self._lose(Loss(one.rank, why), seen=True)
        if self._loss is not None and not self._heard_of and self._awake - self._lost_at > self._grace:
            self._heard_of = True
            self._end(str(self._loss))

    def _lose(self, loss: Loss, *, seen: bool) -> None:
        """The first loss is passed on to both sides; who has seen it says so, for the launcher may end all at once."""
        if self._loss is not None:
            return
        self._loss, self._lost_at = loss, self._awake
        if seen:
            sys.stderr.write(f"rank {self._rank}: {loss}\n")
            sys.stderr.flush()
        self._say({"lost": [loss.rank, loss.why]})

    def _whereabouts(self) -> str:
        """Where this process is, as far as others wait for it."""
        frame = sys._current_frames().get(self._main)  # pyright: ignore[reportPrivateUsage] -- as documented
        calls = traceback.extract_stack(frame)[-DEPTH:] if frame is not None else []
        places = ", ".join(f"{one.filename}:{one.lineno} in {one.name}" for one in calls)
        return f"came last to {self._at}, {time.monotonic() - self._since:.0f} s ago, and is at {places or 'its end'}"


def watched(
    rank: int,
    others: tuple[int, int],
    exchange: Exchange,
    agree: Callable[[bool], bool],
    *,
    silence: float,
    otherwise: float,
) -> Watch | None:
    """The watch of a process; None on all, and a warning, where one can't reach its neighbour.

    Args:
        rank: of this process.
        others: the one before it and the one after it.
        exchange: between neighbours.
        agree: whether something is so in all processes.
        silence: see `Watch`.
        otherwise: seconds after which a lost one is noticed without.
    """
    failed, neighbours = "", None
    try:
        neighbours = connected(others, exchange)
    except OSError as error:
        failed = str(error)
    if agree(not failed):
        return None if neighbours is None else Watch(rank, neighbours, silence=silence, end=_end)
    for one in neighbours or ():
        one.close()
    if failed:
        warnings.warn(
            f"rank {rank} can't be reached by a neighbour, or the other way around: {failed}; a rank that is lost is "
            f"noticed by the launcher, or after {otherwise:g} s of waiting; allow TCP between machines",
            LostRankWarning,
            stacklevel=2,
        )
    return None


def _end(why: str) -> None:
    """Ends this process, which is busy with something else and has not heard that a rank is lost."""
    sys.stderr.write(f"this process is ended, because {why}\n")
    sys.stderr.flush()
    os._exit(1)


_watches: WeakSet[Watch] = WeakSet()


def _forget_all() -> None:
    for one in list(_watches):
        one.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
