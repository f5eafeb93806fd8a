"""A step of training on many ranks, simulated event by event, from a step that was measured on one.

What is measured: when each bucket of gradients is full, how long computation, update and copies take (`Timeline`). What
is stated: the network (`Network`). What is simulated: the meeting of the ranks, which bucket starts when, one exchange
at a time in order, what of it computation hides, and what is waited for. All ranks take equally long, which is the
best case: of thousands one is late.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import asdict, evolve, frozen

ALGORITHMS = ("halving", "ring")
"""Recursive halving and doubling, as MPI does it for long messages; a ring, as Gloo does."""


@frozen
class Bucket:
    """Gradients that are sent together.

    Attributes:
        ready: seconds of computation after which it is full.
        nbytes: that it sends.
    """

    ready: float
    nbytes: int


@frozen(kw_only=True)
class Timeline:
    """A step on one rank, in seconds.

    Attributes:
        model, batch, threads: what was measured.
        alone: the whole step of a trainer without other ranks.
        buckets: in the order in which they get full.
        computed: until the backward pass and its copies into buckets are done.
        total: until the step is done: copies out of buckets and the update.
    """

    model: str
    batch: int
    threads: int
    alone: float
    buckets: tuple[Bucket, ...]
    computed: float
    total: float

    @property
    def nbytes(self) -> int:
        """Of all gradients."""
        return sum(bucket.nbytes for bucket in self.buckets)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> Timeline:
        return cls(**{**read, "buckets": tuple(Bucket(**one) for one in read["buckets"])})


@frozen
class Network:
    """What connects ranks.

    Attributes:
        name: of it.
        latency: seconds from one rank to another, α.
        seconds_per_byte: β.
        busy: the part of an exchange's time in which the rank can't compute: 0 where the card moves the data, 1 where
            the same CPU does.
        algorithm: one of `ALGORITHMS`.
        per_node: ranks of a node, which share its connection, and sum among themselves before.
        inside: what connects the ranks of a node.
    """

    name: str
    latency: float
    seconds_per_byte: float
    busy: float = 0.0
    algorithm: str = "halving"
    per_node: int = 1
    inside: Network | None = None

    def exchange(self, ranks: int, nbytes: float) -> float:
        """Seconds in which so many bytes of each rank are summed, and all have the sum."""
        if self.inside is not None and self.per_node > 1:
            here = min(self.per_node, ranks)
            return self.inside.exchange(here, nbytes) + self._between(-(-ranks // here), nbytes)
        return self._between(ranks, nbytes)

    def _between(self, ranks: int, nbytes: float) -> float:
        hops = math.ceil(math.log2(ranks)) if self.algorithm == "halving" else ranks - 1
        return 2 * hops * self.latency + 2 * (ranks - 1) / ranks * nbytes * self.seconds_per_byte


@frozen
class Flight:
    """An exchange.

    Attributes:
        ready, start, end: seconds since the step began.
    """

    ready: float
    start: float
    end: float


@frozen
class Outcome:
    """A simulated step.

    Attributes:
        seconds: all of it.
        met: when the ranks had met.
        computed: when the backward pass was done.
        flights: of the buckets, in order.
        arrived: when the last mean was there.
    """

    seconds: float
    met: float
    computed: float
    flights: tuple[Flight, ...]
    arrived: float

    @property
    def waited(self) -> float:
        """Seconds from the end of the backward pass to the last mean."""
        return self.arrived - self.computed


def simulate(
    timeline: Timeline, exchange: Callable[[int], float], *, meeting: float = 0.0, busy: float = 0.0
) -> Outcome:
    """One step.

    Args:
        timeline: of one rank.
        exchange: seconds for so many bytes.
        meeting: seconds for the ranks to meet before the step.
        busy: see `Network`.
    """
    now, done = meeting, 0.0  # the clock, and the seconds of computation that are done by then
    coming, waiting = deque(timeline.buckets), deque[tuple[float, int]]()
    flights: list[Flight] = []
    flying: tuple[float, float] | None = None  # when it was full, and when it began
    left = 0.0  # of what is flying
    computed: float | None = None
    while coming or waiting or flying is not None or computed is None:
        if flying is None and waiting:
            ready, nbytes = waiting.popleft()
            flying, left = (ready, now), exchange(nbytes)
        speed = 1.0 if flying is None else 1.0 - busy
        goal = coming[0].ready if coming else timeline.computed
        remaining = max(goal - done, 0.0)
        if computed is not None:
            until = math.inf
        else:
            until = remaining / speed if speed and remaining else math.inf if remaining else 0.0
        if flying is not None and left <= until:
            now, done = now + left, done + (0.0 if computed is not None else left * speed)
            flights.append(Flight(*flying, now))
            flying = None
            continue
        now, done, left = now + until, goal, left - until
        if coming:
            waiting.append((now, coming.popleft().nbytes))
        else:
            computed = now
    arrived = max([computed, *(flight.end for flight in flights)])
    return Outcome(arrived + timeline.total - timeline.computed, meeting, computed, tuple(flights), arrived)


MEETING_BYTES = 48
"""Of what ranks tell each other before a step."""


def on(timeline: Timeline, network: Network, ranks: int) -> Outcome:
    """A step on so many ranks."""
    if ranks == 1:
        return simulate(timeline, lambda _: 0.0)
    return simulate(
        timeline,
        lambda nbytes: network.exchange(ranks, nbytes),
        meeting=network.exchange(ranks, MEETING_BYTES),
        busy=network.busy,
    )


def efficiency(timeline: Timeline, network: Network, ranks: int) -> float:
    """The time of one rank alone by that of each of so many, which do as much."""
    return timeline.alone / on(timeline, network, ranks).seconds


def faster(timeline: Timeline, times: float) -> Timeline:
    """The same step on a rank that computes and copies so many times as fast."""
    return evolve(
        timeline,
        alone=timeline.alone / times,
        computed=timeline.computed / times,
        total=timeline.total / times,
        buckets=tuple(Bucket(one.ready / times, one.nbytes) for one in timeline.buckets),
    )


def fitted(ranks: int, small: float, nbytes: int, large: float) -> tuple[float, float]:
    """α and β of exchanges that took so long, of next to nothing and of so many bytes, by halving and doubling."""
    hops = 2 * math.ceil(math.log2(ranks))
    return small / hops, max(large - small, 0.0) / (2 * (ranks - 1) / ranks * nbytes)


NETWORKS: Sequence[Network] = (
    Network("1 Gb/s", 50e-6, 1 / 0.12e9),
    Network("10 Gb/s", 20e-6, 1 / 1.2e9),
    Network("25 Gb/s", 10e-6, 1 / 3e9),
    Network("100 Gb/s", 2e-6, 1 / 12e9),
)
"""What tables are of: usual latencies, and nearly the bandwidth that the names say."""
