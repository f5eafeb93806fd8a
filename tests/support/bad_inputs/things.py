"""Arrays, and things that pass for arrays, to execute with."""

from functools import cache

import numpy as np
import onednn_graph as og
from onednn_graph import LogicalTensor
from onednn_graph.graph.runtime import arrays as dlpack

from bad_inputs import (
    CONV,
    DROP,
    FILTERS,
    arrays,
    graph_of,
    make_op,
    partition,
    result_array,
    tensors,
)

BACKENDS = [name for name, reason in og.list_backends().items() if reason is None and name != "native"]
X, DY = arrays()
X64 = X.astype(np.float64)
GOOD = result_array()
GOOD_X = X.copy()
PORTS = {
    CONV: ("src", "diff_dst", "diff_weights"),
    FILTERS: ("input_forward", "output_delta", "filter_delta"),
}


class Exporter:
    """Exports an array through DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class OnAnotherDevice(Exporter):
    """Exports an array as if it were in the memory of a GPU."""

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        struct = dlpack._Managed.from_address(dlpack._capsule_pointer(capsule, b"dltensor"))
        struct.tensor.device_type = 2
        return capsule


class Broken:
    """Has `__dlpack__` that gives something else, or raises."""

    def __init__(self, answer):
        self.answer = answer

    def __dlpack__(self, **options):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class BrokenArray:
    """Has `__array__` that raises."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError("no\narray today")


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


@cache
def compiled(kind, backend, operand=False):
    """The compiled partition of an op; with the weights' shape as an input if `operand`."""
    if not operand:
        return partition(kind, backend).compile()
    inputs = [*tensors(kind), LogicalTensor(2, "s32", [4])]
    graph = graph_of(make_op(kind, inputs, weights_shape=DROP))
    graph.finalize()
    return graph.get_partitions(backend=backend)[0].compile()


def unaligned(array):
    """A copy that begins at an odd address."""
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    view = buffer[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view
