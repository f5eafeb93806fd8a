"""Random problems and memory layouts for hypothesis, and the ways in which the package can be asked to run one."""

from dataclasses import dataclass, replace

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from onednn_graph.backends.onednn.library.enumerators import CpuIsa
from onednn_graph.backends.onednn.library.loading import load
from oracle import DTYPES, Problem

SETTINGS = settings(
    derandomize=True,
    deadline=None,  # the first use of a kernel generates it
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

_WITHOUT_ONEDNN = og.list_backends()["onednn"]
BACKENDS = [
    pytest.param(
        "onednn",
        marks=pytest.mark.skipif(
            _WITHOUT_ONEDNN is not None, reason=f"backend onednn is not available: {_WITHOUT_ONEDNN}"
        ),
    ),
    "numpy",
]
"""For `parametrize`; oneDNN is skipped, with its reason, where its library is not."""


def has_isa(name):
    """Whether the CPU, as far as the library may use it, has an instruction set."""
    return (int(load().c.dnnl_get_effective_cpu_isa()) & CpuIsa[name]) == CpuIsa[name]


# --- ways to run a problem -----------------------------------------------------------------------------

FUNCTIONS = {
    "ConvolutionBackwardWeights": og.convolution_backward_weights,
    "ConvTransposeBackwardWeights": og.conv_transpose_backward_weights,
}


def eagerly(problem, backend, arrays=None, out=None):
    """By the op's own function."""
    return FUNCTIONS[problem.kind](
        *(arrays or problem.arrays()),
        weights_shape=problem.weights_shape,
        backend=backend,
        out=out,
        **problem.attributes,
    )


def by_builder(problem, backend, arrays=None, out=None):
    """By `graph.op` and `graph.compile`."""
    src, diff_dst = arrays or problem.arrays()
    graph = og.Graph()
    x = graph.input("src", problem.dtype, src.shape)
    dy = graph.input("diff_dst", problem.dtype, diff_dst.shape)
    dw = graph.op(problem.kind, x, dy, weights_shape=problem.weights_shape, name="dw", **problem.attributes)
    assert dw.shape == problem.weights_shape
    assert dw.data_type == problem.dtype
    model = graph.compile(backend=backend)
    result = model({"src": src, "diff_dst": diff_dst}, None if out is None else {"dw": out})["dw"]
    assert [explanation.backend for explanation in model.explain().values()] == [backend]
    return result


def by_partition(problem, backend, arrays=None, out=None):
    """By oneDNN Graph's own steps, with the arrays' strides in the logical tensors, executed twice: once bound."""
    src, diff_dst = arrays or problem.arrays()
    out = np.empty(problem.weights_shape, DTYPES[problem.dtype]) if out is None else out
    tensors = [described(i, problem.dtype, array) for i, array in enumerate((src, diff_dst, out))]
    graph = og.Graph()
    graph.add_op(
        og.Op(
            11,
            problem.kind,
            tensors[:2],
            tensors[2:],
            weights_shape=problem.weights_shape,
            **problem.attributes,
        )
    )
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    compiled = partition.compile()
    assert compiled.backend == backend
    (result,) = compiled.execute(og.Stream(compiled.engine), [src, diff_dst], [out])
    assert result is out
    first = result.copy()
    out[...] = -99
    compiled.bind([src, diff_dst], [out])()
    np.testing.assert_array_equal(out, first, err_msg="bind and execute differ")
    return out


def by_runtime_shape(problem, backend, arrays=None, out=None):
    """With the weights' shape as an input whose value is known at execution only.

    The attribute is given too, with a value that fits nothing: the input must win.
    """
    src, diff_dst = arrays or problem.arrays()
    shape = np.array(problem.weights_shape, np.int32)
    tensors = [
        og.LogicalTensor(0, problem.dtype, src.shape),
        og.LogicalTensor(1, problem.dtype, diff_dst.shape),
        og.LogicalTensor(2, "s32", shape.shape),
    ]
    wrong = [size + 97 for size in problem.weights_shape]
    graph = og.Graph()
    graph.add_op(
        og.Op(
            5,
            problem.kind,
            tensors,
            [og.LogicalTensor(3, problem.dtype)],
            weights_shape=wrong,
            **problem.attributes,
        )
    )
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    compiled = partition.compile()
    (result,) = compiled.execute(None, [src, diff_dst, shape], None if out is None else [out])
    assert compiled.backend == backend
    return result


def described(number, dtype, array):
    """A logical tensor that lies like the array."""
    # Nothing can be said about the strides of an empty array, nor needs to be.
    strides = None if array.size == 0 else [step // array.itemsize for step in array.strides]
    return og.LogicalTensor(number, dtype, array.shape, strides=strides)


WAYS = {
    "eager": eagerly,
    "builder": by_builder,
    "partition": by_partition,
    "runtime shape": by_runtime_shape,
}


def check(problem, result, *, fast=False):
    """The result is the oracle's, to the last bit, in type and shape."""
    expected = problem.expected(fast=fast)
    assert result.dtype == expected.dtype
    assert result.shape == problem.weights_shape == expected.shape
    # Half precisions are compared as f64, in which every value of theirs is exact, for readable messages.
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


# --- random problems -----------------------------------------------------------------------------------


def _any_case(draw, word):
    return draw(st.sampled_from([word, word.lower(), word.title(), word.swapcase()]))


@st.composite
def problems(draw, *, ranks=(1, 2, 2, 3), largest=6, channels=3, taps=3, dtypes=("f32", "bf16", "f16")):
    """A problem of either op.

    Sizes are drawn so that they work out; nothing has to be filtered.

    Args:
        ranks: spatial ranks to choose from.
        largest: how far sizes of src go beyond the least that is possible, at most.
        channels: per group, at most.
        taps: kernel size, at most.
        dtypes: names of data types to choose from.
    """
    transposed = draw(st.booleans())
    rank = draw(st.sampled_from(ranks))

    def per_axis(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    # Where the most volume is, less of each is enough.
    crowded = max(0, rank - 2)
    kernel = per_axis(1, max(2, taps - crowded))
    strides, dilations = per_axis(1, 3), per_axis(1, 3)
    pads = draw(st.sampled_from(["given", "given", "empty", "zero"]))
    begin, end = {
        "given": lambda: (per_axis(0, 4), per_axis(0, 4)),
        "empty": lambda: ((), ()),
        "zero": lambda: ((0,) * rank, (0,) * rank),
    }[pads]()
    auto_pad = draw(st.sampled_from([None, None, "None", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    explicit = per_axis(0, 3) if transposed and draw(st.booleans()) else None
    implied = ()
    if transposed and explicit is None:  # told by the size of diff_dst only, it has to be below the stride
        implied = tuple(draw(st.integers(0, s - 1)) for s in strides)
    groups = draw(st.sampled_from([None, 1, 1, 2, 3, 4, 5]))
    parts = groups or 1
    per_group = draw(st.sampled_from(["any", "any", "depthwise", "multiplier", "reduced"]))
    i, o = (draw(st.integers(1, max(1, channels - crowded))) for _ in range(2))
    i, o = {"any": (i, o), "depthwise": (1, 1), "multiplier": (1, o), "reduced": (i, 1)}[per_group]
    least = Problem(
        transposed=transposed,
        batch=draw(st.sampled_from([1, 1, 2, 3])),
        groups=groups,
        channels=(parts * i, parts * o),
        size=(1,) * rank,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        begin=begin,
        end=end,
        auto_pad=auto_pad if auto_pad is None else _any_case(draw, auto_pad),
        output_padding=explicit,
        implied=implied,
        data_format=draw(st.sampled_from([None, "NXC", "NCX", "NCX"])),
        weights_format=draw(st.sampled_from([None, *(("XOI", "IOX") if transposed else ("XIO", "OIX"))])),
        documented=draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 999)),
    )
    size = tuple(
        _least_size(least, a) + draw(st.integers(0, max(1, largest - 2 * crowded))) for a in range(rank)
    )
    return replace(least, size=size)


def _least_size(problem, axis):
    """The smallest size of src on one axis for which diff_dst has a position."""
    size = 1
    while replace(problem, size=(size,) * problem.rank).out[axis] < 1:
        size += 1
    return size


# --- random memory -------------------------------------------------------------------------------------

GUARD = 77
"""What fills the memory around an array; no sum may take it in, and no result may overwrite it."""


@dataclass(frozen=True)
class Memory:
    """How an array lies in a larger block of memory.

    Attributes:
        order: the axes from the slowest to the fastest.
        steps: elements of an axis are that far apart, the ones between being padding.
        reversed_axes: those that run backwards.
        offset: elements before the array, so that it begins at no round address.
        unaligned: begins at an odd byte.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]
    reversed_axes: tuple[bool, ...] = ()
    offset: int = 0
    unaligned: bool = False

    def place(self, array):
        """(a view that holds the array's values, the flat block of memory that it is in)."""
        rank = array.ndim
        sizes = [array.shape[axis] * self.steps[axis] for axis in self.order]
        count = self.offset + int(np.prod(sizes))
        odd = int(self.unaligned)
        block = np.zeros(count * array.itemsize + odd, np.uint8)[odd:].view(array.dtype)
        block[...] = GUARD
        view = block[self.offset :].reshape(sizes)
        view = view[tuple(slice(None, None, self.steps[axis]) for axis in self.order)]
        view = view.transpose(np.argsort(self.order))
        flips = self.reversed_axes or (False,) * rank
        view = view[tuple(slice(None, None, -1 if flip else 1) for flip in flips)]
        assert np.shares_memory(view, block) or array.size == 0
        view[...] = array
        return view, block


@st.composite
def memories(draw, rank, *, forward=False):
    """A layout in memory for an array of that rank.

    Args:
        forward: only what positive strides, in whole elements, can say.
    """
    permuted = st.permutations(range(rank)).map(tuple)
    steps = st.tuples(*[st.sampled_from([1, 1, 2, 3])] * rank)
    if forward:
        return draw(st.builds(Memory, permuted, steps, offset=st.integers(0, 3)))
    flips = st.tuples(*[st.sampled_from([False, False, False, True])] * rank)
    unaligned = st.sampled_from([False, False, False, True])
    return draw(st.builds(Memory, permuted, steps, flips, st.integers(0, 3), unaligned))
