"""Ranks that torch.distributed has brought together over Gloo: torchrun's processes, or a worker group of Ray Train.

What `MpiCommunicator` asks of mpi4py is made here of torch.distributed: buckets, meetings and waiting are the same.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import ResourceError, UnsupportedError
from ...ops.records import define
from ..runtime.arrays import Array
from ..runtime.libraries import library
from .communication import BUCKET_BYTES, LOST_AFTER, NAP_SECONDS, TIMEOUT, MpiCommunicator, settings
from .watch import Watch

NAMING_SECONDS = 2.0
"""What it may take until it is known who is lost, where that can be asked."""
LATER_SECONDS = 60.0
"""As much later than ours Gloo's own time limit is, so that the error is the one that says more."""


class GlooCommunicator(MpiCommunicator):
    """Ranks that speak through Gloo; see `gloo`. Usable as a context manager.

    Attributes:
        rank, size, key, bucket_bytes, data_type, sync_batch_norm: as of an `MpiCommunicator`.
    """

    def close(self) -> None:
        """Frees it, once all ranks have called that; graphs that were made for it can't run any more."""
        super().close()
        _open.discard(self.key)
        distributed = self._mpi.distributed
        if _began and not _open and distributed.is_initialized():
            distributed.destroy_process_group()

    def until(self, done: Callable[[], bool], what: str) -> None:
        try:
            super().until(done, what)
        except _BrokenError as error:  # Gloo sees at once that a connection is lost; the watch knows whose
            end = time.monotonic() + NAMING_SECONDS
            while time.monotonic() < end:
                self._mourn(f"rank {self.rank} waits for {what}, but")
                time.sleep(NAP_SECONDS)
            raise ResourceError(
                f"rank {self.rank} waits for {what}, but another rank has ended or was killed; start again from the "
                f"last checkpoint (Gloo says: {error})"
            ) from error

    def _all_leave(self, barrier: Any, watch: Watch) -> None:
        try:
            super()._all_leave(barrier, watch)
        except _BrokenError:  # a rank was lost, of which those who waited for it have told
            self._calls_before = self._calls

    def abort(self, why: str = "it has called abort") -> None:
        """Ends this rank at once, and by that the others, who lose their connections to it."""
        if self._watch is not None:
            self._watch.fails(why)
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(1)

    def __repr__(self) -> str:
        return f"GlooCommunicator(rank {self.rank} of {self.size})"


class _BrokenError(Exception):
    """A connection is lost."""


@define
class _Request:
    """What is under way.

    Args:
        work: torch's; None where it could not even begin.
        broken: why not.
    """

    work: Any
    broken: Exception | None = None

    def Test(self) -> bool:  # noqa: N802 -- as mpi4py says it, and so below
        if self.broken is None and not self.work.is_completed():
            return False
        self.Wait()
        return True

    def Wait(self) -> None:  # noqa: N802
        try:
            if self.broken is not None:
                raise self.broken
            self.work.wait()
        except RuntimeError as error:
            told = str(error).strip().splitlines() or [type(error).__name__]
            raise _BrokenError(told[0][:300]) from error


@define
class _Done:
    """What is done at once."""

    def Wait(self) -> None:  # noqa: N802
        pass


@define
class _Group:
    """A group of torch.distributed, as far as a communicator of mpi4py is asked for.

    Args:
        torch, distributed: the modules.
        group: torch's.
        store: where ranks leave words for each other.
        timeout: of Gloo.
        name: of this one among the communicators of a process, the same on all ranks.
    """

    torch: Any
    distributed: Any
    group: Any
    store: Any
    timeout: timedelta
    name: str
    size: int
    rank: int
    _copies: int = field(init=False, default=0)
    _talks: int = field(init=False, default=0)

    def Get_rank(self) -> int:  # noqa: N802
        return self.rank

    def Get_size(self) -> int:  # noqa: N802
        return self.size

    def Dup(self) -> _Group:  # noqa: N802
        """Another one of the same ranks, with connections and an order of its own."""
        self._copies += 1
        made = self.distributed.new_group(backend="gloo", timeout=self.timeout)
        name = f"{self.name}.{self._copies}"
        return _Group(
            self.torch, self.distributed, made, self.store, self.timeout, name, self.size, self.rank
        )

    def Free(self) -> None:  # noqa: N802
        if self.distributed.is_initialized():
            self.distributed.destroy_process_group(self.group)

    # --- all ranks ---

    def Iallreduce(self, given: Array | None, out: Array, op: str) -> _Request:  # noqa: N802
        if given is not None:
            np.copyto(out, given)
        reduce = getattr(self.distributed.ReduceOp, op)
        return self._begin(self.distributed.all_reduce, self._tensor(out), op=reduce)

    def Ibcast(self, array: Array, root: int) -> _Request:  # noqa: N802
        return self._begin(self.distributed.broadcast, self._tensor(array), src=root)

    def Iallgather(self, own: Array, out: Array) -> _Request:  # noqa: N802
        rows = list(self._tensor(out.reshape(self.size, -1).view(np.uint8)))
        return self._begin(self.distributed.all_gather, rows, self._tensor(own.reshape(-1).view(np.uint8)))

    def Ialltoall(self, given: Array, out: Array) -> _Request:  # noqa: N802
        sent, received = (self._tensor(a.reshape(-1).view(np.uint8)) for a in (given, out))
        return self._begin(self.distributed.all_to_all_single, received, sent)

    def Ibarrier(self) -> _Request:  # noqa: N802
        return self.Iallreduce(None, np.zeros(1, np.int64), "SUM")

    def allreduce(self, value: bool, op: str) -> bool:
        held = np.array([value], np.uint8)
        self.Iallreduce(None, held, op).Wait()
        return bool(held[0])

    def _begin(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> _Request:
        try:
            return _Request(call(*arguments, group=self.group, async_op=True, **options))
        except RuntimeError as error:
            return _Request(None, error)

    def _tensor(self, array: Array) -> Any:
        return self.torch.from_numpy(array)

    # --- words from one to another, left in the store ---

    def Isend(self, word: Array, dest: int) -> _Done:  # noqa: N802
        with suppress(RuntimeError):  # the store has ended with rank 0, and so will all
            self.store.set(self._key(self.rank, dest), word.tobytes())
        return _Done()

    def Iprobe(self, source: int) -> bool:  # noqa: N802
        try:
            return bool(self.store.check([self._key(source, self.rank)]))
        except RuntimeError as error:
            raise _BrokenError(str(error)) from error

    def Recv(self, word: Array, source: int) -> None:  # noqa: N802
        word[...] = np.frombuffer(self._heard(self._key(source, self.rank)), word.dtype)

    def sendrecv(self, text: str, dest: int, source: int) -> str:
        self._talks += 1
        self.store.set(self._key(self.rank, dest, self._talks), text.encode())
        return self._heard(self._key(source, self.rank, self._talks)).decode()

    def _heard(self, key: str) -> bytes:
        try:
            self.store.wait([key], self.timeout)
            return bytes(self.store.get(key))
        except RuntimeError as error:
            raise _BrokenError(str(error)) from error

    def _key(self, source: int, dest: int, talk: int = 0) -> str:
        return f"onednn_graph/{self.name}/{source}/{dest}/{talk}"


@define
class _Gloo:
    """What is asked of the module mpi4py.MPI."""

    distributed: Any
    SUM: str = "SUM"
    MAX: str = "MAX"
    LAND: str = "MIN"
    IN_PLACE: None = None

    def Is_finalized(self) -> bool:  # noqa: N802
        return not self.distributed.is_initialized()


_made = 0
"""How many communicators this process has had."""
_open: set[int] = set()
"""Keys of those that are open."""
_began = False
"""Whether torch's process group is of our making."""


def gloo(
    *,
    bucket_bytes: int = BUCKET_BYTES,
    data_type: DataType | str = DataType.f32,
    sync_batch_norm: bool = False,
    timeout: float = TIMEOUT,
    lost_after: float = LOST_AFTER,
) -> GlooCommunicator:
    """The processes that `torchrun` or a worker group of Ray Train consists of, for `Trainer(…, comm=…)`.

    They speak through Gloo, by torch.distributed, which moves data in threads of its own. Where nobody has called
    `torch.distributed.init_process_group`, it is called here with what torchrun sets in the environment; without that
    there is one rank.

    Args:
        bucket_bytes: how many bytes of gradients, or a tensor more, are averaged in one go.
        data_type: in which gradients are sent, f32 or bf16; see `mpi`.
        sync_batch_norm: whether BatchNormForwardTraining takes means and variances over all ranks, not each its own.
        timeout: seconds after which a rank that waits for others gives up.
        lost_after: seconds after which a rank that gives no sign of life is lost; see `mpi`.

    Raises:
        UnsupportedError: torch is not installed, or is without torch.distributed or Gloo.
        ArgumentError, ArgumentTypeError: another type, or no positive number.
    """
    global _made, _began
    size, sent = settings("gloo", bucket_bytes, data_type, timeout=timeout, lost_after=lost_after)
    torch, distributed = (
        library(name, "torch", "og.training.gloo") for name in ("torch", "torch.distributed")
    )
    if not (distributed.is_available() and distributed.is_gloo_available()):
        raise UnsupportedError(
            "og.training.gloo needs a torch with torch.distributed and Gloo; install another build of it, or use "
            "og.training.mpi"
        )
    limit = timedelta(seconds=timeout + LATER_SECONDS)
    if not distributed.is_initialized():
        _began = True
        if "MASTER_ADDR" in os.environ:
            distributed.init_process_group("gloo", timeout=limit)
        else:
            distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    _made += 1
    world = _Group(
        torch,
        distributed,
        None,
        distributed.distributed_c10d._get_default_store(),
        limit,
        str(_made),
        distributed.get_world_size(),
        distributed.get_rank(),
    )
    made = GlooCommunicator(
        world,
        _Gloo(distributed),
        bucket_bytes=size,
        data_type=sent,
        sync_batch_norm=bool(sync_batch_norm),
        timeout=float(timeout),
        lost_after=float(lost_after),
    )
    made.meet("the settings of og.training.gloo", (size, sent.value, made.sync_batch_norm))
    atexit.register(made.leave)
    _open.add(made.key)
    return made
