"""Ranks that torch.distributed has brought together over Gloo: torchrun's processes, or a worker group of Ray Train.

What `MpiCommunicator` asks of mpi4py is made here of torch.distributed: buckets, meetings and waiting are the same.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import ResourceError, UnsupportedError
from ...ops.records import define
from ..runtime.arrays import Array
from ..runtime.libraries import library
from .communication import BUCKET_BYTES, TIMEOUT, MpiCommunicator, settings

LEAVING_SECONDS = 30.0
"""As long as a rank that ends waits for the others, who may need what it has sent."""
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

    def _watched(self, lost_after: float) -> None:
        """None: Gloo has threads and connections of its own, and tells of one that is closed."""

    def abort(self, why: str = "") -> None:
        """Ends this rank at once, and by that the others, who lose their connections to it."""
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(1)

    def __repr__(self) -> str:
        return f"GlooCommunicator(rank {self.rank} of {self.size})"


@define
class _Request:
    """What is under way: torch's `Work`.

    Args:
        then: called once, where its result has arrived.
    """

    work: Any
    rank: int
    then: Callable[[], object] | None = None

    def Test(self) -> bool:  # noqa: N802 -- as mpi4py says it, and so below
        if not self.work.is_completed():
            return False
        self.Wait()
        return True

    def Wait(self) -> None:  # noqa: N802
        try:
            self.work.wait()
        except RuntimeError as error:
            raise _lost(self.rank, error) from error
        if self.then is not None:
            self.then()
            self.then = None


@define
class _Done:
    """What is done at once."""

    def Wait(self) -> None:  # noqa: N802
        pass


def _lost(rank: int, error: Exception) -> ResourceError:
    told = str(error).strip().splitlines() or [type(error).__name__]
    return ResourceError(
        f"rank {rank} has lost another rank, which has ended or was killed; start all again, from a checkpoint "
        f"(Gloo says: {told[0][:300]})"
    )


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

    def _begin(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> _Request:
        try:
            return _Request(call(*arguments, group=self.group, async_op=True, **options), self.rank)
        except RuntimeError as error:
            raise _lost(self.rank, error) from error

    def _tensor(self, array: Array) -> Any:
        return self.torch.from_numpy(array)

    # --- words from one to another ---

    def Isend(self, word: Array, dest: int) -> _Done:  # noqa: N802
        self._speak(lambda: self.store.set(self._key(self.rank, dest), word.tobytes()))
        return _Done()

    def Iprobe(self, source: int) -> bool:  # noqa: N802
        return bool(self._speak(lambda: self.store.check([self._key(source, self.rank)])))

    def Recv(self, word: Array, source: int) -> None:  # noqa: N802
        key = self._key(source, self.rank)
        self._speak(lambda: self.store.wait([key], timedelta(seconds=LEAVING_SECONDS)))
        word[...] = np.frombuffer(self._speak(lambda: self.store.get(key)), word.dtype)

    def _speak(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except RuntimeError as error:
            raise _lost(self.rank, error) from error

    def _key(self, source: int, dest: int) -> str:
        return f"onednn_graph/{self.name}/{source}/{dest}"


@define
class _Gloo:
    """What is asked of the module mpi4py.MPI."""

    distributed: Any
    SUM: str = "SUM"
    MAX: str = "MAX"
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
) -> GlooCommunicator:
    """The processes that `torchrun` or a worker group of Ray Train consists of, for `Trainer(…, comm=…)`.

    They speak through Gloo, by torch.distributed, which moves data in threads of its own. Where nobody has called
    `torch.distributed.init_process_group`, it is called here with what torchrun sets in the environment; without that
    there is one rank.

    Args:
        bucket_bytes: how many bytes of gradients are averaged in one go.
        data_type: in which gradients are sent, f32 or bf16; see `mpi`.
        sync_batch_norm: whether BatchNormForwardTraining takes means and variances over all ranks, not each its own.
        timeout: seconds after which a rank that waits for others gives up.

    Raises:
        UnsupportedError: torch is not installed, or is without torch.distributed or Gloo.
        ArgumentError, ArgumentTypeError: another type, or no positive number.
    """
    global _made, _began
    size, sent = settings("gloo", bucket_bytes, data_type, timeout=timeout)
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
    )
    made.meet("the settings of og.training.gloo", (size, sent.value, made.sync_batch_norm))
    atexit.register(made.leave)
    _open.add(made.key)
    return made
