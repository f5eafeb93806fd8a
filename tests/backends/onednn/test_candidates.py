"""Every candidate of the oneDNN backend gives exact numbers, also those that no cost model would choose."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from onednn_graph.backends.onednn.library.enumerators import FpmathMode
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.lowering.weight_gradient import problem_of
from onednn_graph.backends.onednn.plan.arena import GUARDS
from onednn_graph.backends.onednn.plan.steps import HostArray
from onednn_graph.backends.onednn.weight_gradients.problem import check as check_problem
from onednn_graph.backends.onednn.weight_gradients.selection import candidates
from onednn_graph.backends.onednn.weight_gradients.strategies import REFERENCE_STRATEGIES, STRATEGIES
from onednn_graph.backends.onednn.weight_gradients.strategies.parts import ImageParts
from oracle import DTYPES, Problem
from strategies import SETTINGS, check, described, has_isa, problems

ENGINE = []
SMALL_PARTS = tuple(evolve(strategy, near=400) for strategy in STRATEGIES if isinstance(strategy, ImageParts))
"""Small problems are no reason to compute in parts; with these they are."""
ALL = STRATEGIES + REFERENCE_STRATEGIES + SMALL_PARTS


@pytest.fixture(autouse=True, scope="module")
def _guards():
    """Temporary memory is NaN until something writes it, and guards are around it."""
    with GUARDS.on():
        yield


def engine():
    if not ENGINE:
        ENGINE.append(NativeEngine())
    return ENGINE[0]


def lowered(problem, rejected, table=ALL, fpmath=FpmathMode.strict):
    """The arrays of a problem and all its candidates."""
    src, diff_dst = problem.arrays()
    out = np.empty(problem.weights_shape, DTYPES[problem.dtype])
    tensors = [described(i, problem.dtype, array) for i, array in enumerate((src, diff_dst, out))]
    op = og.Op(
        0, problem.kind, tensors[:2], tensors[2:], weights_shape=problem.weights_shape, **problem.attributes
    )
    inner = problem_of(op, fpmath)
    assert check_problem(inner) is None
    return src, diff_dst, out, candidates(engine(), inner, table, rejected)


def check_all(problem, table=ALL, fpmath=FpmathMode.strict):
    """Runs every candidate twice; returns their strategies' names."""
    rejected, names = [], []
    src, diff_dst, out, found = lowered(problem, rejected, table, fpmath)
    for candidate in found:
        frame = candidate.plan.take()
        for _ in range(2):
            out[...] = 99
            frame.point([array.ctypes.data for array in (src, diff_dst, out)])
            frame.run()
            check(problem, out, fast=True)
        assert frame.intact(), candidate
        check_views(candidate.plan)
        names.append(candidate.strategy)
    return names


def least_isa(strategy):
    """The instruction set from which on the library has kernels that go with a strategy."""
    if "in bf16" in strategy:
        return "avx512_core"
    return "avx2" if strategy.startswith(("direct", "merged groups", "space to depth")) else "sse41"


def reach(buffer):
    """Bytes from its first element to behind its last."""
    seen = HostArray.of(buffer)
    if seen is None:
        return buffer.desc.nbytes
    return seen.dtype.itemsize + sum((d - 1) * s for d, s in zip(seen.shape, seen.strides, strict=True))


def check_views(made):
    """Every view lies inside of the memory that it looks at."""
    for step in made.steps:
        for _, buffer in step.arguments:
            assert buffer.place + reach(buffer) <= buffer.root.desc.nbytes, (step.role, buffer)


APPLYING = {
    "direct": Problem(channels=(16, 16), size=(8, 8), kernel=(3, 3)),
    "gemm": Problem(channels=(3, 4), size=(8, 8), kernel=(3, 3), data_format="NCX"),
    "merged groups": Problem(
        groups=8, channels=(32, 32), size=(8, 8), kernel=(3, 3), begin=(1, 1), end=(1, 1)
    ),
    "depthwise by pieces of the width": Problem(
        groups=6, channels=(6, 6), size=(9, 10), kernel=(5, 7), begin=(2, 3), end=(1, 2)
    ),
    "depthwise by pieces of the width by parts": Problem(
        batch=4, groups=6, channels=(6, 6), size=(9, 10), kernel=(5, 7), begin=(2, 3), end=(1, 2)
    ),
    "merged groups on channels last by parts": Problem(
        batch=6, groups=8, channels=(32, 32), size=(8, 8), kernel=(3, 3), begin=(1, 1), end=(1, 1)
    ),
    "direct on channels last by parts": Problem(
        batch=3, channels=(16, 16), size=(8, 8), kernel=(3, 3), begin=(2, 0), end=(1, 1), strides=(1, 2)
    ),
    "matrix product": Problem(channels=(6, 8), size=(4, 6), kernel=(1, 1)),
    "matrix product in 4 parts": Problem(batch=4, channels=(6, 8), size=(4, 6), kernel=(1, 1)),
    "columns and matrix product": Problem(channels=(3, 5), size=(8, 12), kernel=(4, 3), strides=(4, 3)),
    "matrix product of whole images": Problem(batch=5, channels=(3, 4), size=(4, 3), kernel=(4, 3)),
    "space to depth": Problem(
        channels=(3, 8), size=(15, 16), kernel=(7, 5), strides=(2, 3), begin=(3, 2), end=(2, 1)
    ),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("strategy", APPLYING)
def test_each_strategy_where_it_applies(strategy, data_format, dtype, onednn):
    problem = replace(APPLYING[strategy], data_format=data_format, dtype=dtype)
    names = check_all(problem)
    parts = strategy.endswith("by parts")
    strategy = strategy.removesuffix(" by parts")
    fitting = (
        name
        for name in names
        if name.startswith(strategy) and (not parts or name.endswith(" by parts of the images"))
    )
    applies = has_isa(least_isa(strategy)) and not (parts and dtype == "f16")
    assert any(fitting) is (applies and (data_format == "NCX" or "channels last" not in strategy)), names


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("per_group", "groups", "applies"),
    [((8, 16), 6, True), ((16, 4), 6, True), ((8, 24), 6, False), ((12, 12), 4, False), ((8, 16), 5, False)],
)
def test_groups_are_merged_into_two_vectors_on_one_side(per_group, groups, applies, dtype, onednn):
    channels = tuple(groups * c for c in per_group)
    names = check_all(Problem(groups=groups, channels=channels, size=(8, 7), kernel=(3, 2), dtype=dtype))
    merged = any(name.startswith("merged groups") for name in names)
    assert merged is (applies and has_isa("avx2")), names


PARTS = "direct on the primitive's own layout by parts of the images"


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"batch": 6}, True),
        ({"batch": 6, "groups": 6}, True),
        ({"batch": 20}, True),
        ({"batch": 5, "groups": 17, "channels": (17, 17), "strides": (2, 1)}, True),
        ({"batch": 4, "size": (9,), "kernel": (3,), "begin": (1,), "end": (1,)}, True),
        ({"batch": 4, "transposed": True, "strides": (2, 2)}, True),
        ({"batch": 1}, False),
        ({"batch": 37}, False),
        ({"batch": 6, "data_format": "NXC"}, False),
    ],
    ids=str,
)
def test_parts_of_the_images(changed, parts, dtype, onednn):
    """They are as many as divide the batch, and no sum is rounded before the last."""
    shape = {"channels": (6, 6), "size": (9, 10), "kernel": (3, 3), "begin": (1, 1), "end": (1, 1)}
    names = check_all(Problem(**{**shape, "dtype": dtype, "data_format": "NCX", **changed}))
    found = any(name.endswith("by parts of the images") and "in f32" not in name for name in names)
    possible = parts and dtype != "f16"
    if has_isa("avx512_core" if dtype == "bf16" else "avx2") or not possible:  # before, some have kernels
        assert found is possible, names


@pytest.mark.parametrize(("size", "parts"), [((300, 320), True), ((30, 32), False)])
def test_images_are_cut_where_their_copies_are_large(size, parts, onednn):
    problem = Problem(batch=4, groups=4, channels=(4, 4), size=size, kernel=(3, 3), data_format="NCX")
    names = [one.strategy for one in lowered(problem, [], STRATEGIES)[3]]
    assert (PARTS in names) is (parts and has_isa("avx2"))


@pytest.mark.parametrize("groups", [1, 16])
def test_a_sum_of_parts_may_stay_in_the_kernels_layout(groups, onednn):
    problem = Problem(
        batch=4, groups=groups, channels=(16, 16), size=(150, 160), kernel=(3, 3), data_format="NCX"
    )
    arrays = problem.arrays()
    tensors = [described(i, "f32", array) for i, array in enumerate(arrays)]
    dw = og.LogicalTensor(2, "f32", layout_type="any")
    graph = og.Graph()
    graph.add_op(
        og.Op(0, problem.kind, tensors, [dw], weights_shape=problem.weights_shape, **problem.attributes)
    )
    graph.finalize()
    strategy = PARTS if has_isa("avx2") else None
    compiled = graph.get_partitions(backend="onednn")[0].compile(strategy=strategy)
    (made,) = compiled.execute(None, list(arrays))
    lies = compiled.query_logical_tensor(2)
    if lies.layout_type == "opaque":
        made = og.Tensor.from_opaque(lies, made, compiled.engine).numpy()
    check(problem, made, fast=True)


PIECES = "depthwise by pieces of the width"


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("changed", "split"),
    [
        ({}, True),
        ({"kernel": (1, 4), "begin": (0, 3), "end": (0, 2)}, True),
        ({"kernel": (5, 3)}, False),
        ({"kernel": (2, 9), "size": (3, 9), "begin": (1, 0), "end": (0, 0)}, True),
        ({"begin": (0, 0), "end": (0, 0)}, True),
        ({"begin": (0, 6), "end": (0, 0)}, True),
        ({"begin": (0, 0), "end": (0, 6)}, True),
        ({"begin": (2, 6), "end": (2, 6)}, True),
        ({"strides": (1, 2)}, True),
        ({"strides": (2, 2), "end": (2, 5)}, True),
        ({"dilations": (1, 2), "size": (9, 19)}, False),
        ({"dilations": (2, 1), "size": (15, 10)}, False),
        ({"groups": 5, "channels": (5, 5), "batch": 1}, True),
        ({"groups": 17, "channels": (17, 17)}, True),
        ({"groups": 3}, False),
    ],
    ids=str,
)
def test_wide_depthwise_kernels(changed, split, dtype, onednn):
    """Padded, strided and dilated, and at the very end of memory."""
    names = check_all(replace(APPLYING[PIECES], dtype=dtype, **changed), STRATEGIES)
    assert names
    pieces = any(name.startswith(PIECES) for name in names)
    assert pieces is split or (split and not has_depthwise())


@pytest.mark.parametrize("dilations", [(1, 2), (2, 1), (3, 3), (1, 1)])
def test_a_dilated_kernel_is_not_split(dilations, onednn):
    """Its pieces would stand elsewhere; the library has had no kernel for them so far."""
    problem = replace(APPLYING[PIECES], size=(25, 25), dilations=dilations)
    tensors = [
        described(i, "f32", array) for i, array in enumerate((*problem.arrays(), problem.expected(fast=True)))
    ]
    op = og.Op(
        0, problem.kind, tensors[:2], tensors[2:], weights_shape=problem.weights_shape, **problem.attributes
    )
    (split,) = (strategy for strategy in STRATEGIES if strategy.name == PIECES)
    reason = split.applies(problem_of(op, FpmathMode.strict))
    assert reason == (None if dilations == (1, 1) else "the kernel is dilated")


def has_depthwise():
    return any(name.startswith(PIECES) for name in check_all(APPLYING[PIECES], STRATEGIES))


@pytest.mark.long
@given(problem=problems())
@settings(SETTINGS, max_examples=300)
def test_every_candidate_is_exact(onednn, problem):
    check_all(problem)


@pytest.mark.long
@given(problem=problems(largest=40, channels=20, taps=7))
@settings(SETTINGS, max_examples=150, suppress_health_check=list(HealthCheck))
def test_every_candidate_is_exact_on_larger_problems(onednn, problem):
    check_all(problem, STRATEGIES + SMALL_PARTS)


@pytest.mark.long
@given(problem=problems(dtypes=("f32",)))
@settings(SETTINGS, max_examples=200)
def test_every_candidate_of_a_lowered_fpmath_mode_is_exact_on_small_integers(onednn, problem):
    """Integers up to 3 are bf16 numbers, and sums stay in f32: nothing is lost."""
    names = check_all(problem, STRATEGIES + SMALL_PARTS, FpmathMode.bf16)
    assert any("bf16" in name for name in names) == (onednn_has_bf16())


@pytest.mark.parametrize("mode", ["strict", "f16", "tf32"])
def test_strict_is_strict(mode, onednn):
    """Nothing goes through bf16 unless the user allows it."""
    found = lowered(APPLYING["direct"], [], STRATEGIES, FpmathMode[mode])[3]
    assert not any("bf16" in one.strategy for one in found)


def onednn_has_bf16():
    return any(
        "bf16" in one.strategy for one in lowered(APPLYING["direct"], [], STRATEGIES, FpmathMode.bf16)[3]
    )


@pytest.mark.no_cover
def test_every_strategy_is_drawn(onednn):
    """The problems of these tests reach all strategies; one that is added without a row would be proven by none."""
    seen = Counter()

    @given(problem=problems(largest=20, channels=8, taps=5))
    @settings(SETTINGS, max_examples=400)
    def collect(problem):
        seen.update(one.strategy for one in lowered(problem, [])[3])

    collect()
    for problem in APPLYING.values():
        for dtype, data_format in product(("f32", "bf16"), ("NXC", "NCX")):
            sized = replace(problem, dtype=dtype, data_format=data_format)
            seen.update(one.strategy for one in lowered(sized, [], fpmath=FpmathMode.bf16)[3])
    possible = {strategy.name for strategy in STRATEGIES if has_isa(least_isa(strategy.name))}
    assert not possible - set(seen)
