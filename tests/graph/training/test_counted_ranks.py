"""What a rank hands to MPI in a step, for any number of ranks: as many calls, and as many bytes but for rounding up."""

# ruff: noqa: N802 -- as mpi4py says it

from collections import Counter

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.training.communication import MpiCommunicator
from onednn_graph.ops.data_types import DataType

BYTES = 4 * (64 * 32 + 32 * 8)
"""Of the gradients, in f32."""


class Done:
    def Test(self):
        return True

    def Wait(self):
        pass


class Counted:
    """A communicator of mpi4py of one process, which thinks that there are others, all like itself."""

    SUM, MAX, LAND, IN_PLACE = "SUM", "MAX", "LAND", None

    def __init__(self, size):
        self.size, self.calls, self.bytes = size, Counter(), Counter()

    def Dup(self):
        return self

    def Get_rank(self):
        return 0

    def Get_size(self):
        return self.size

    def _count(self, what, array):
        self.calls[what] += 1
        self.bytes[what] += array.nbytes
        return Done()

    def Iallreduce(self, given, out, op):
        if given is not None:
            np.copyto(out, given)
        return self._count("Allreduce", out)

    def Ibcast(self, array, root):
        return self._count("Bcast", array)

    def Iallgather(self, own, out):
        out.reshape(self.size, -1)[...] = own.reshape(-1)
        return self._count("Allgather", own)

    def Ialltoall(self, given, out):
        np.copyto(out, given)
        return self._count("Alltoall", given)

    def Ireduce_scatter_block(self, rows, own, op):
        np.copyto(own, rows[0])
        return self._count("Reduce_scatter", rows)


class Unwatched(MpiCommunicator):
    def _watched(self, lost_after):
        return None


def counted(size, data_type="f32", **options):
    """Calls and bytes of one step."""
    stub = Counted(size)
    comm = Unwatched(
        stub,
        stub,
        bucket_bytes=4096,
        data_type=DataType(data_type),
        sync_batch_norm=False,
        timeout=10,
        **options,
    )
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 64])
    first, second = (graph.parameter(np.ones(shape, np.float32)) for shape in ((64, 32), (32, 8)))
    loss = graph.reduce_mean(graph.square(graph.matmul(graph.matmul(x, first), second)), axes=[0, 1])
    trainer = og.training.Trainer(graph, loss, og.training.Adam(0.1), comm=comm)
    stub.calls.clear()
    stub.bytes.clear()
    trainer.step({"x": np.ones((4, 64), np.float32)})
    assert trainer.steps == 1
    return stub.calls, stub.bytes


@pytest.mark.parametrize("options", [{}, {"data_type": "bf16"}, {"shard_optimizer": True}], ids=str)
def test_calls_and_bytes_do_not_grow_with_the_ranks(options):
    calls, sent = counted(2, **options)
    for size in (8, 64, 1024):
        more_calls, more = counted(size, **options)
        assert more_calls == calls
        assert set(more) == set(sent)
        for what, nbytes in more.items():
            assert nbytes <= 2 * sent[what]  # filled up to a multiple of the ranks


def test_what_a_step_hands_to_mpi():
    calls, sent = counted(2)
    buckets = calls["Allreduce"] - 2  # beside the two of the meeting
    assert set(calls) == {"Allreduce"}
    assert 1 <= buckets < 5
    assert BYTES < sent["Allreduce"] < BYTES + 100
    calls, sent = counted(2, data_type="bf16")
    assert calls["Alltoall"] == calls["Allgather"]
    assert sent["Alltoall"] == 2 * sent["Allgather"] == BYTES / 2
    calls, sent = counted(2, shard_optimizer=True)
    assert sent["Reduce_scatter"] == 2 * sent["Allgather"] == BYTES
    assert sent["Allreduce"] < 100
