"""Ranks that train one model together, through MPI."""

from __future__ import annotations

import atexit
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Any

import numpy as np

from ...ops.data_types import DataType, parse_data_type
from ...ops.errors import ArgumentError, ArgumentTypeError, ResourceError
from ...ops.values import format_value, integer, one_line
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..runtime import communication
from ..runtime.arrays import Array, numpy_type
from ..runtime.libraries import library
from ..runtime.parameter import Parameter
from .averaging import Layout, averaged
from .batch_norm import synchronise_batch_norm
from .buckets import Bucket, HalfBucket, WholeBucket
from .cores import split_cores as give_cores
from .exchange import Exchange
from .explaining import SENT, Words, explanation, short
from .optimizers import Optimizer
from .sharding import PartBucket, Shards, parts_of_means
from .step import Owed
from .tracing import waited as traced_wait
from .watch import Watch, watched
from .weighted_means import weigh_over_ranks

BUCKET_BYTES = 4 << 20
"""How large buckets are. Smaller ones start sooner and leave less for the end; larger ones cost fewer latencies."""
TIMEOUT = 600.0
"""Seconds after which nobody waits any more."""
LOST_AFTER = 20.0
"""Seconds after which a rank that gives no sign of life is lost."""

SPIN_SECONDS = 0.05
"""As long as that a rank that waits only lets others go first; then it sleeps between its looks."""
NAP_SECONDS = 100e-6
LAST_WORDS_SECONDS = 0.3
"""What launchers need to pass on what a rank has written, before they end all."""
LEAVE_NAP_SECONDS = 5e-3
LOOK_SECONDS = 0.5
"""How often a rank that waits looks whether the one before it has ended."""


class MpiCommunicator:
    """Ranks of MPI; see `mpi`. Usable as a context manager.

    Attributes:
        rank: number of this process, from 0.
        size: how many there are.
        key: number of the communicator in this process, for attributes of ops.
        share: of this rank in means, since they met last: 1 where all have equally much.
        bucket_bytes, data_type, sync_batch_norm, shard_optimizer: as given to `mpi`.
    """

    def __init__(
        self,
        comm: Any,
        mpi: Any,
        *,
        bucket_bytes: int,
        data_type: DataType,
        sync_batch_norm: bool,
        timeout: float,
        lost_after: float = LOST_AFTER,
        shard_optimizer: bool = False,
    ) -> None:
        self._mpi = mpi
        # Messages of ours never meet the user's, nor each other: each kind has its own order on each rank.
        self._comm, self._starts, self._returns, self._leaving = (comm.Dup() for _ in range(4))
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.key = communication.new_key()
        self.bucket_bytes, self.data_type = bucket_bytes, data_type
        self.sync_batch_norm, self.shard_optimizer = sync_batch_norm, shard_optimizer
        self.timeout = timeout
        self._exchange = Exchange(self)
        self._totals = 0  # since the last meeting
        self._alone = False  # another rank is lost, or hangs
        self.share = 1.0  # of this rank in means: 1 where all have equally much
        self._open = True
        self._calls = 0  # that all ranks make together
        self._calls_before: int | None = None  # as many as the rank before this one had made when it ended
        self._watch = self._watched(lost_after) if self.size > 1 else None
        communication.enter(self)

    def _watched(self, lost_after: float) -> Watch | None:
        """The watch over all ranks; None, and a warning, where one can't reach its neighbour."""
        before, after = self._before, (self.rank + 1) % self.size

        def exchange(text: str) -> tuple[str, str]:
            forwards = self._leaving.sendrecv(text, dest=after, source=before)
            return forwards, self._leaving.sendrecv(text, dest=before, source=after)

        return watched(
            self.rank,
            (before, after),
            exchange,
            lambda here: bool(self._comm.allreduce(here, self._mpi.LAND)),
            silence=lost_after,
            otherwise=self.timeout,
        )

    # --- for trainers ---

    def prepare(self, graph: Graph) -> None:
        """Makes what each rank trains of the graph of one process; before its gradients."""
        weigh_over_ranks(graph, self)
        if self.sync_batch_norm:
            synchronise_batch_norm(graph, self)

    def averaged(
        self, graph: Graph, loss: LogicalTensor, gradients: Sequence[LogicalTensor | None]
    ) -> Iterator[LogicalTensor | None]:
        """Adds the ops that make of a loss and its gradients the means over the ranks; see `averaging.averaged`."""
        return (parts_of_means if self.shard_optimizer else averaged)(graph, self, loss, gradients)

    def shards(
        self, parameters: Mapping[str, Parameter], optimizers: Mapping[str, Optimizer]
    ) -> Shards | None:
        """The parts of this rank, where the optimizer's state is divided."""
        return Shards(self, parameters, optimizers) if self.shard_optimizer else None

    # --- buckets, for ops ---

    def buckets(self, layouts: Sequence[Layout], *, parts: bool = False) -> list[int]:
        """Buckets of these layouts.

        Graphs that ask for the same ones, as those for other sizes of the batch do, share them: they run one at a time.
        The ranks are not asked, for each makes graphs when its own data need them; they `meet` before they run them.

        Returns:
            Their numbers.
        """
        return self._exchange.numbers(layouts, parts=parts)

    def bucket(self, sizes: tuple[int, ...], data_type: DataType, *, parts: bool = False) -> Bucket:
        """A bucket of pieces of so many elements, sent in that type; with parts, each rank gets its part of means."""
        if parts:
            return PartBucket(self._returns, self._mpi, sizes, data_type is DataType.bf16)
        if data_type is DataType.bf16:
            return HalfBucket(self._starts, self._returns, sizes)
        return WholeBucket(self._starts, self._mpi, sizes, numpy_type(data_type))

    def put(self, bucket: int, piece: int, values: Array) -> None:
        """Copies a tensor into its place of a bucket; the last one of them starts the exchange."""
        self._exchange.put(bucket, piece, values)

    def get(self, bucket: int, piece: int, out: Array) -> None:
        """Waits for a bucket, and copies the mean of one of its tensors."""
        self._exchange.get(bucket, piece, out)

    def abandon(self, owed: Iterable[Owed]) -> bool:
        """See `step.Communicator`."""
        done = self._totals
        left = [one for one in owed if not self._exchange.has(one.bucket, one.piece)]
        if self._alone or not any(one.bucket is not None for one in left):
            return False
        for one in left:
            if one.bucket is not None:
                self._exchange.put(
                    one.bucket, one.piece, np.full(one.elements, np.nan, np.float32), share=1.0
                )
            elif done:
                done -= 1
            else:
                self._exchange.land()
                wide = one.data_type if one.data_type is DataType.f64 else DataType.f32
                nothing = np.full(one.elements, np.nan, numpy_type(wide))
                self.total(nothing, np.empty_like(nothing))
        self._exchange.land()
        return True

    # --- at once ---

    def total(self, values: Array, out: Array) -> None:
        """Waits for all ranks, and writes the sum of what they have; f32 or f64."""
        given = np.ascontiguousarray(values)
        result = out if out.flags.c_contiguous else np.empty_like(given)
        self._totals += 1
        self._wait(self._comm.Iallreduce(given, result, self._mpi.SUM), "a sum over the ranks")
        if result is not out:
            np.copyto(out, result)

    def gather(self, own: Array, rows: Array) -> None:
        """Waits for all ranks, and writes what each has into a row."""
        self._wait(self._comm.Iallgather(own, rows), "the parameters of all")

    def mean(self, value: float) -> float:
        """The mean of a number over the ranks."""
        given, out = np.array([value], np.float64), np.empty(1)
        self.total(given, out)
        return float(out[0]) / self.size

    def broadcast(self, arrays: Iterable[Array]) -> None:
        """Writes what rank 0 has into the arrays of the others; they must be C-contiguous, and of the same sizes."""
        given = list(arrays)
        self.meet("the parameters", [(a.shape, a.dtype.name) for a in given])
        for array in given:
            self._wait(
                self._comm.Ibcast(array.reshape(-1).view(np.uint8), root=0), "the parameters of rank 0"
            )

    def meet(
        self, what: str, value: object = None, *, weight: float = 1.0, failure: Exception | None = None
    ) -> None:
        """Waits for all ranks; see `step.Communicator`. What is exchanged has a fixed size but where it goes wrong.

        Args:
            what, value: together the same on all ranks.
            weight: of this rank in the means of buckets until the next meeting.
            failure: ends it for all.

        Raises:
            ResourceError: a rank is elsewhere, has another value, or has failed.
        """
        mine = repr((what, value))
        digest = int.from_bytes(blake2b(mine.encode(), digest_size=7).digest(), "little")
        size = round(weight)
        here = np.array([digest, -digest, failure is not None, size, -size])
        counted = np.array([weight], np.float64)
        highest, total = np.empty_like(here), np.empty_like(counted)
        both = (  # under way together
            self._comm.Iallreduce(here, highest, self._mpi.MAX),
            self._comm.Iallreduce(counted, total, self._mpi.SUM),
        )
        for one in both:
            self._wait(one, what)
        if highest[2] or highest[0] != -highest[1]:
            self._explain(what, repr(value), str(digest), failure)
        elif self.sync_batch_norm and highest[3] != -highest[4]:
            raise ResourceError(
                f"{what}: sync_batch_norm takes parts of one length on all ranks, got {-highest[4]} to {highest[3]}; "
                "leave out the rest of the last batch, or use statistics of each rank"
            )
        else:
            self.share = weight * self.size / float(total[0]) if total[0] else 1.0
            self._exchange.begin(self.share)
            self._totals = 0

    def _explain(self, what: str, value: str, digest: str, failure: Exception | None) -> None:
        """Tells why the ranks can't go on; not to a rank that has failed itself, which knows."""
        reason = "" if failure is None else str(failure) or type(failure).__name__
        mine = Words(what, value[:SENT], digest, reason[:SENT])
        texts = [Words(*each) for each in self._texts(mine)]
        if failure is not None:
            return
        raise ResourceError(explanation(self.rank, texts))

    def _texts(self, texts: Sequence[str]) -> list[list[str]]:
        """The texts of every rank."""
        mine = json.dumps(texts).encode()
        lengths = np.empty(self.size, np.int64)
        self._wait(self._comm.Iallgather(np.array([len(mine)]), lengths), "what the ranks have")
        shares = np.zeros((self.size, int(lengths.max())), np.uint8)
        own = np.zeros(shares.shape[1], np.uint8)
        own[: len(mine)] = np.frombuffer(mine, np.uint8)
        self._wait(self._comm.Iallgather(own, shares), "what the ranks have")
        return [json.loads(share[:length].tobytes()) for length, share in zip(lengths, shares, strict=True)]

    # --- waiting ---

    def count(self, what: str) -> None:
        """Counts a call that all ranks make together."""
        self._calls += 1
        if self._watch is not None:
            self._watch.note(self._calls, what)

    def _wait(self, request: Any, what: str) -> None:
        self.count(what)
        self.until(request.Test, what)

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Looks until something is done.

        Raises:
            ResourceError: it takes longer than the timeout, or a rank has ended that it would need.
        """
        try:
            self._look_until(done, what)
        except ResourceError:
            self._alone = True
            raise

    def _look_until(self, done: Callable[[], bool], what: str) -> None:
        begun = time.perf_counter()
        look = LOOK_SECONDS
        while not done():
            waited = time.perf_counter() - begun
            if waited < SPIN_SECONDS:
                time.sleep(0)
                continue
            time.sleep(NAP_SECONDS)
            if waited > look:
                look = waited + LOOK_SECONDS
                self._mourn(f"rank {self.rank} waits for {what}, but")
                if self._leaving.Iprobe(source=self._before):
                    self._hear()
                if self._calls_before is not None and self._calls_before < self._calls:
                    raise ResourceError(
                        f"rank {self.rank} waits for {what}, but rank {self._before} has ended; let all ranks do the "
                        "same number of steps"
                    )
            if waited > self.timeout:
                late = None if self._watch is None else self._watch.late()
                who = "a rank hangs" if late is None else f"rank {late[0]} hangs: it {late[1]}"
                raise ResourceError(
                    f"rank {self.rank} has waited {self.timeout:g} s for {what}; {who}; or they don't do the same "
                    "number of steps; og.training.mpi(timeout=…) allows more"
                )
        traced_wait(what, begun)

    def _mourn(self, here: str) -> None:
        """Raises where a rank is lost."""
        loss = None if self._watch is None else self._watch.loss()
        if loss is not None:
            raise ResourceError(
                f"{here} {loss}; start again from the last checkpoint, with fewer ranks if need be"
            )

    # --- the end ---

    @property
    def _before(self) -> int:
        return (self.rank - 1) % self.size

    def _hear(self) -> None:
        """Takes the word of the rank before this one that it has ended."""
        word = np.zeros(1, np.int64)
        self._leaving.Recv(word, source=self._before)
        self._calls_before = int(word[0])

    def leave(self) -> None:
        """Tells the next rank that this one has ended, and waits for the word of the one before it."""
        if not self._open or self._mpi.Is_finalized():
            return
        communication.leave(self)
        self._open = False
        if self.size > 1:
            sent = self._leaving.Isend(np.array([self._calls]), dest=(self.rank + 1) % self.size)
            if self._watch is not None:
                self._watch.leaves()
                # MPI itself waits for all where it ends, and would do so for ever.
                self._all_leave(self._leaving.Ibarrier(), self._watch)
            if self._calls_before is None:
                self._hear()
            sent.Wait()
            if self._watch is not None:
                self._watch.close()

    def _all_leave(self, barrier: Any, watch: Watch) -> None:
        while not barrier.Test():
            time.sleep(LEAVE_NAP_SECONDS)
            loss = watch.loss()
            if loss is not None:
                sys.stderr.write(f"rank {self.rank} of {self.size} has ended, but {loss}\n")
                self.abort()

    def close(self) -> None:
        """Frees it, once all ranks have called that; graphs that were made for it can't run any more."""
        self.leave()
        atexit.unregister(self.leave)
        for comm in (self._comm, self._starts, self._returns, self._leaving):
            comm.Free()

    def abort(self, why: str = "it has called abort") -> None:
        """Ends all ranks at once."""
        if self._watch is not None:
            self._watch.fails(why)
        sys.stderr.flush()
        sys.stdout.flush()
        self._mpi.COMM_WORLD.Abort(1)

    def __enter__(self) -> MpiCommunicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self.size > 1 and kind is SystemExit and getattr(error, "code", None):
            self.abort()  # any other error comes to the hook

    def __repr__(self) -> str:
        return f"MpiCommunicator(rank {self.rank} of {self.size})"


def _end_all(
    comm: MpiCommunicator, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Says what went wrong on this rank, and ends the others, which would wait for it for ever."""
    told = "".join(traceback.format_exception(kind, error, trace))
    # In one piece, since what the ranks write is mixed.
    sys.stderr.write(f"{told}rank {comm.rank} of {comm.size} has failed, and ends all others\n")
    sys.stderr.flush()
    time.sleep(LAST_WORDS_SECONDS)
    comm.abort(f"it has failed: {short(one_line(error))}")


def settings(
    who: str, bucket_bytes: object, data_type: DataType | str, **seconds: object
) -> tuple[int, DataType]:
    """How large buckets are, and in which type they are sent, as the user of a communicator has asked.

    Raises:
        ArgumentError, ArgumentTypeError: another type, or no positive number.
    """
    size = integer(bucket_bytes)
    if size is None or isinstance(bucket_bytes, bool):
        raise ArgumentTypeError(
            f"{who}: bucket_bytes must be a number of bytes, got {format_value(bucket_bytes)}"
        )
    if size < 1:
        raise ArgumentError(f"{who}: bucket_bytes must be above 0, got {size}")
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentTypeError(f"{who}: {name} must be a number of seconds, got {format_value(value)}")
        if not value > 0:
            raise ArgumentError(f"{who}: {name} must be above 0, got {format_value(value)}")
    sent = parse_data_type(data_type, f"{who}: data_type")
    if sent not in (DataType.f32, DataType.bf16):
        raise ArgumentError(f"{who}: data_type must be f32 or bf16, got {sent.value}")
    return size, sent


def mpi(
    comm: Any = None,
    *,
    bucket_bytes: int = BUCKET_BYTES,
    data_type: DataType | str = DataType.f32,
    sync_batch_norm: bool = False,
    shard_optimizer: bool = False,
    split_cores: bool = True,
    timeout: float = TIMEOUT,
    lost_after: float = LOST_AFTER,
) -> MpiCommunicator:
    """The ranks that `mpirun` has started, for `Trainer(…, comm=…)`; started without it there is one.

    From then on an error that nobody catches, on any rank, ends all of them.

    Args:
        comm: communicator of mpi4py; all ranks if None.
        bucket_bytes: how many bytes of gradients, or a tensor more, are averaged in one go.
        data_type: in which gradients are sent: f32, or bf16, half the bytes. Sums are made in f32 either way, and what
            is f64 stays f64.
        sync_batch_norm: whether BatchNormForwardTraining takes means and variances over all ranks, not each its own.
        shard_optimizer: whether each rank keeps its part of the optimizer's state alone, updates its part of each
            parameter, and gathers the others'. Not for LAMB, which needs whole parameters.
        split_cores: whether the ranks of one machine divide its CPUs, and each has as many threads as it has CPUs.
            Where OMP_NUM_THREADS is set, or the launcher has divided them, that stands.
        timeout: seconds after which a rank that waits for others gives up.
        lost_after: seconds after which a rank that gives no sign of life, being stopped or on a machine that is gone,
            is lost, and ends the others. One that has ended is lost at once; one that is busy gives signs.

    Raises:
        UnsupportedError: mpi4py is not installed, or finds no MPI.
        ArgumentError, ArgumentTypeError: another type, or no positive number.
    """
    size, sent = settings("mpi", bucket_bytes, data_type, timeout=timeout, lost_after=lost_after)
    module = library("mpi4py.MPI", "mpi", "og.training.mpi")
    world = module.COMM_WORLD if comm is None else comm
    if split_cores:
        give_cores(world, module)
    made = MpiCommunicator(
        world,
        module,
        bucket_bytes=size,
        data_type=sent,
        sync_batch_norm=bool(sync_batch_norm),
        timeout=float(timeout),
        lost_after=float(lost_after),
        shard_optimizer=bool(shard_optimizer),
    )
    own = (size, sent.value, made.sync_batch_norm, made.shard_optimizer)
    made.meet("the settings of og.training.mpi", own)
    atexit.register(made.leave)
    if made.size > 1:
        sys.excepthook = partial(_end_all, made)
    return made
