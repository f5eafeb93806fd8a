"""Which candidate is chosen: by estimate, by what was measured, by what the user pins; and the files that remember."""

import json
import math
import multiprocessing
from dataclasses import replace

import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve
from onednn_graph.backends.onednn import tuning_cache
from onednn_graph.backends.onednn.library.enumerators import CpuIsa, FpmathMode
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.lowering.weight_gradient import problem_of
from onednn_graph.backends.onednn.plan.plan import Plan
from onednn_graph.backends.onednn.plan.work import AMOUNTS, TRAITS, Work
from onednn_graph.backends.onednn.weight_gradients import tuning
from onednn_graph.backends.onednn.weight_gradients.candidate import Candidate
from onednn_graph.backends.onednn.weight_gradients.cost import (
    NEAREST,
    USUAL_FAMILY,
    CostModel,
    CpuClass,
    cost_data,
    measured,
)
from onednn_graph.backends.onednn.weight_gradients.problem import View
from onednn_graph.backends.onednn.weight_gradients.selection import candidates, in_order
from onednn_graph.backends.onednn.weight_gradients.strategies import STRATEGIES
from onednn_graph.ops.data_types import DataType
from oracle import Problem
from strategies import check, has_isa

DENSE = Problem(channels=(16, 32), size=(12, 12), kernel=(3, 3), begin=(1, 1), end=(1, 1), batch=4)
ISAS = [isa.name for isa in CpuIsa]


@pytest.fixture(autouse=True)
def folder(onednn, tmp_path, monkeypatch):
    """A cache of the test's own."""
    path = tmp_path / "tuned"
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(path))
    return path


def graph_of(problem, fpmath_mode="strict"):
    src, diff_dst = problem.arrays()
    graph = og.Graph(fpmath_mode=fpmath_mode)
    x, dy = graph.input("x", problem.dtype, src.shape), graph.input("dy", problem.dtype, diff_dst.shape)
    graph.op(problem.kind, x, dy, weights_shape=problem.weights_shape, name="dw", **problem.attributes)
    return graph


def run(model, problem):
    src, diff_dst = problem.arrays()
    check(problem, model({"x": src, "dy": diff_dst})["dw"], fast=True)


# --- the cost model -------------------------------------------------------------------------------------


def test_the_data_file_is_complete():
    for model in measured():
        assert model.isa in ISAS
        assert model.threads >= 1
        for family, amounts in AMOUNTS.items():
            kinds = model.coefficients[family]
            assert "*" in kinds
            for per_unit in kinds.values():
                assert len(per_unit) == len(amounts)
                assert all(math.isfinite(c) and c >= 0 for c in per_unit)


@pytest.mark.parametrize(
    ("gemm", "first"), [(1.0, "space to depth"), (0.9, "gemm on the user's layout"), (1.2, "space to depth")]
)
def test_the_estimate_of_gemm_is_doubted(gemm, first):
    """One that is a little better goes behind another that is known better."""
    problem = Problem(channels=(3, 8), size=(8, 8), kernel=(3, 3), data_format="NCX")
    arrays = (*problem.arrays(), np.empty(problem.weights_shape, np.float32))
    tensors = [og.LogicalTensor(i, "f32", array.shape) for i, array in enumerate(arrays)]
    op = og.Op(
        0, problem.kind, tensors[:2], tensors[2:], weights_shape=problem.weights_shape, **problem.attributes
    )
    names = ["gemm on the user's layout", "space to depth", "direct on the primitive's own layout"]
    order = in_order(problem_of(op, FpmathMode.strict), names, [gemm, 1.05, 2.0])
    assert names[order[0]] == first


def leaves(tree, traits):
    """The leaves of a tree whose thresholds are on traits that there are."""
    if isinstance(tree, int | float):
        return [tree]
    trait, threshold, below, others = tree
    assert 0 <= trait < traits
    assert math.isfinite(threshold)
    return leaves(below, traits) + leaves(others, traits)


def test_corrections_of_the_data_file_are_trees_on_traits():
    assert any(model.corrections for model in measured())
    for model in measured():
        for family, kinds in model.corrections.items():
            for kind, trees in kinds.items():
                assert kind in model.coefficients[family]
                most = sum(max(map(abs, leaves(tree, len(TRAITS[family])))) for tree in trees)
                assert most < 20


def test_trees_multiply_what_is_proportional():
    tree = [1, 8.0, math.log(2), [0, 3.0, math.log(3), math.log(5)]]
    model = CostModel(
        isa="avx2",
        threads=1,
        coefficients={"sum": {"fast": [1.0], "*": [1.0]}},
        corrections={"sum": {"fast": [tree, math.log(7)]}},
    )
    factors = {(2.0, 7.0): 14, (2.0, 8.0): 21, (3.0, 8.0): 35}
    for traits, factor in factors.items():
        assert model.seconds([Work("sum", "fast", (10.0,), traits)]) == pytest.approx(10 * factor)
    assert model.seconds([Work("sum", "slow", (10.0,), (2.0, 7.0))]) == 10


@pytest.mark.parametrize(
    ("isa", "cpu"),
    [
        ("sse41", "avx2"),
        ("avx2", "avx2"),
        ("avx2_vnni_2", "avx2"),
        ("avx512_core", "avx512"),
        ("avx512_core_bf16", "avx512"),
        ("avx512_core_fp16", "avx512"),
        ("avx512_core_amx", "amx"),
        ("avx512_core_amx_fp16", "amx"),
    ],
)
def test_every_instruction_set_has_a_class(isa, cpu):
    assert CpuClass.of(isa) is CpuClass[cpu]


def test_copies_on_the_host_cost_something():
    """Patches of one channel are gathered by NumPy where the library would go element by element."""
    engine = NativeEngine()
    problem = Problem(
        batch=4, channels=(1, 4), size=(14, 14), kernel=(4, 4), strides=(2, 2), data_format="NXC"
    )
    src, diff_dst = problem.arrays()
    tensors = [
        og.LogicalTensor(i, problem.dtype, shape)
        for i, shape in enumerate((src.shape, diff_dst.shape, problem.weights_shape))
    ]
    op = og.Op(
        0, problem.kind, tensors[:2], tensors[2:], weights_shape=problem.weights_shape, **problem.attributes
    )
    for one in candidates(engine, problem_of(op, FpmathMode.strict), STRATEGIES, []):
        copies = [step for step in one.plan.steps if step.is_copy]
        assert all(step.work is not None for step in copies)


def test_seconds_are_a_sum_of_products():
    model = CostModel(
        isa="avx2", threads=1, coefficients={"sum": {"fast": [1.0, 2.0, 3.0], "*": [5.0, 0.0, 0.0]}}
    )
    known, unknown = Work("sum", "fast", (1.0, 10.0, 100.0)), Work("sum", "slow", (1.0, 7.0, 7.0))
    assert model.seconds([known]) == 321
    assert model.seconds([known, unknown]) == 326


@pytest.mark.parametrize(
    ("isa", "threads"), [("sse41", 1), ("avx512_core_bf16", 2), ("avx512_core_amx", 64), ("0x7", 3)]
)
@pytest.mark.parametrize("family", ["AuthenticAMD 25", USUAL_FAMILY, "GenuineIntel 6", None])
def test_every_machine_gets_the_data_of_the_nearest_class(isa, threads, family):
    model = cost_data(isa, threads, family)
    there = {CpuClass.of(one.isa) for one in measured()}
    assert CpuClass.of(model.isa) is next(one for one in NEAREST[CpuClass.of(isa)] if one in there)
    alike = [one for one in measured() if CpuClass.of(one.isa) is CpuClass.of(model.isa)]
    if family is not None:
        known = {one.family for one in alike}
        usual = USUAL_FAMILY if USUAL_FAMILY in known else model.family
        assert model.family == (family if family in known else usual)
    rivals = [one for one in alike if one.family == model.family]
    assert (model.isa == isa) == any(one.isa == isa for one in rivals)
    assert abs(model.threads - threads) == min(
        abs(one.threads - threads) for one in rivals if one.isa == model.isa
    )


def test_estimates_are_finite_and_above_zero_for_all_candidates():
    for problem in (
        DENSE,
        Problem(groups=4, channels=(4, 4), kernel=(3, 5), size=(9, 9)),
        Problem(kernel=(1, 1)),
    ):
        for one in graph_of(problem).compile().explain()[0].considered:
            assert 0 < one.estimated_seconds < 10


def test_more_work_costs_more():
    def least(problem):
        return graph_of(problem).compile().explain()[0].considered[0].estimated_seconds

    large = Problem(channels=(64, 64), size=(56, 56), kernel=(3, 3), batch=8)
    assert least(large) > 3 * least(Problem(channels=(64, 64), size=(56, 56), kernel=(3, 3), batch=2))


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_no_half_is_converted_element_by_element(data_format):
    """The library goes from f16 to a blocked layout in f32 by a reference loop; two steps are far faster."""
    problem = replace(DENSE, dtype="f16", data_format=data_format)
    explanation = graph_of(problem).compile().explain()[0]
    own = [one.strategy for one in explanation.considered if "own layout in f32" in one.strategy]
    assert bool(own) == has_isa("avx2")
    for name in own:
        model = graph_of(problem).compile(strategy=name)
        assert not [one for one in model.explain()[0].implementations if "simple" in one]
        run(model, problem)


@pytest.mark.no_cover
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"kernel": (1, 1)},  # one group: dW of a matrix product
        {
            "batch": 1,
            "size": (40,),
            "kernel": (3,),
            "strides": (1,),
            "begin": (1,),
            "end": (1,),
        },  # a padded copy
        {"channels": (1, 32), "size": (16, 16), "kernel": (4, 4), "strides": (4, 4)},
        {"channels": (16, 1), "size": (40,), "kernel": (3,), "strides": (1,)},
    ],
    ids=str,
)
def test_nor_is_one_where_layouts_differ_in_strides_that_mean_nothing(sizes, data_format):
    """Those of axes of one element, such as a group, one image or one channel."""
    problem = Problem(
        **{"channels": (16, 32), "size": (12, 12), "batch": 4, **sizes}, dtype="f16", data_format=data_format
    )
    explanation = graph_of(problem).compile().explain()[0]
    for name in {one.strategy for one in explanation.considered}:
        model = graph_of(problem).compile(strategy=name)
        converts = [one for one in model.explain()[0].implementations if one.startswith("reorder")]
        assert not [one for one in converts if "simple" in one], name
        run(model, problem)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("transposed", [False, True])
def test_an_input_of_which_many_patches_are_taken_is_converted_once(transposed, data_format):
    """Patches have gaps between their elements, where conversion is element by element."""
    problem = Problem(
        transposed=transposed,
        channels=(8, 6),
        size=(40,),
        kernel=(5,),
        strides=(1,),
        begin=(2,),
        end=(2,),
        batch=2,
        dtype="f16",
        data_format=data_format,
    )
    model = graph_of(problem).compile(strategy="columns and matrix product in f32")
    steps = model.explain()[0].implementations
    assert sum(one.startswith("reorder") for one in steps) >= 5  # the patches, in f32
    converted = 0 if has_isa("avx512_core_fp16") else 3  # both inputs and the result
    assert sum(one.startswith("convert") for one in steps) == converted
    assert not [one for one in steps if "simple" in one]
    run(model, problem)


# --- the choice -----------------------------------------------------------------------------------------


def test_the_same_process_gives_the_same_choice():
    explanations = [graph_of(DENSE).compile().explain()[0] for _ in range(3)]
    assert len({explanation.strategy for explanation in explanations}) == 1
    assert len({explanation.considered for explanation in explanations}) == 1
    assert explanations[0].considered[0].strategy == explanations[0].strategy
    assert all(one.measured_seconds is None for one in explanations[0].considered)
    assert "estimated" in str(explanations[0])


def test_nothing_goes_before_the_usual_way_without_a_margin(monkeypatch):
    monkeypatch.setattr(CostModel, "seconds", lambda self, works: 1.0)
    explanation = graph_of(DENSE).compile().explain()[0]
    usual, families = explanation.strategy, [name.split()[0] for name in explanation.implementations]
    assert usual.startswith("direct" if has_isa("avx2") else "gemm")

    def slower(self, works):
        """The usual way is one convolution and what brings dW into place; all others are a little better."""
        return 1.0 if [work.family for work in works] == families else 0.96

    monkeypatch.setattr(CostModel, "seconds", slower)
    assert graph_of(DENSE).compile().explain()[0].strategy == usual
    monkeypatch.setattr(CostModel, "seconds", lambda self, works: slower(self, works) ** 8)
    assert graph_of(DENSE).compile().explain()[0].strategy != usual


@pytest.mark.parametrize("strategy", [s.name for s in STRATEGIES])
def test_every_strategy_can_be_pinned(strategy):
    considered = {
        one.strategy.partition(" [")[0]
        for one in graph_of(DENSE).compile(scratch_limit=2**40).explain()[0].considered
    }
    if strategy in considered:
        model = graph_of(DENSE).compile(strategy=strategy)
        assert model.explain()[0].strategy.startswith(f"{strategy} [")
        run(model, DENSE)
    else:
        with pytest.raises(og.ArgumentError, match="strategy must be one that can do this problem"):
            graph_of(DENSE).compile(strategy=strategy)


def test_an_implementation_can_be_pinned():
    for one in graph_of(DENSE).compile().explain()[0].considered:
        model = graph_of(DENSE).compile(strategy=one.strategy)
        assert model.explain()[0].strategy == one.strategy
        run(model, DENSE)


def test_temporary_memory_is_limited():
    wide = Problem(channels=(64, 64), size=(64, 64), kernel=(3, 3), batch=8)
    data = 8 * 64 * (64 * 64 + 62 * 62) + 64 * 64 * 9
    plain = graph_of(wide).compile().explain()[0]
    assert all(one.scratch_bytes <= 2 * 4 * data for one in plain.considered)
    assert any("above the limit" in reason for reason in plain.rejected)
    assert not any("above the limit" in reason for reason in graph_of(DENSE).compile().explain()[0].rejected)
    least = min(
        one.scratch_bytes for one in graph_of(DENSE).compile(scratch_limit=2**40).explain()[0].considered
    )
    tight = graph_of(DENSE).compile(scratch_limit=least).explain()[0]
    assert all(one.scratch_bytes <= least for one in tight.considered)
    assert any("above the limit" in reason for reason in tight.rejected)
    nothing = graph_of(DENSE).compile(scratch_limit=0)
    assert nothing.explain()[0].scratch_bytes == least
    run(nothing, DENSE)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tune": "sometimes"}, og.ArgumentError, "tune"),
        ({"tune": 5}, og.ArgumentTypeError, "tune"),
        ({"tune_seconds": 0}, og.ArgumentError, "tune_seconds must be above 0, got 0"),
        ({"tune_seconds": "1"}, og.ArgumentTypeError, "tune_seconds must be a number"),
        ({"tune_seconds": float("nan")}, og.ArgumentError, "above 0, got nan"),
        ({"strategy": 5}, og.ArgumentTypeError, "strategy must be a name"),
        ({"strategy": "magic"}, og.ArgumentError, "strategy must be one .*, got 'magic'"),
        (
            {"strategy": "matrx product [brg:avx512_core]", "backend": "onednn"},
            og.ArgumentError,
            "strategy must be",
        ),
        (
            {"strategy": "matrix product", "backend": "numpy"},
            og.ArgumentError,
            "no partition of the graph has a choice",
        ),
        ({"scratch_limit": -1}, og.ArgumentError, "at least 0 bytes, got -1"),
        ({"scratch_limit": 1.5}, og.ArgumentTypeError, "scratch_limit must be a number of bytes"),
    ],
)
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words):
        graph_of(DENSE).compile(**options)


def test_a_strategy_where_there_is_nothing_to_choose_is_an_error():
    graph = og.Graph()
    graph.op("ReLU", graph.input("x", "f32", [4]))
    with pytest.raises(og.ArgumentError, match="no partition of the graph has a choice"):
        graph.compile(strategy="matrix product")
    graph.finalize()
    (partition,) = graph.get_partitions()
    with pytest.raises(og.ArgumentError, match="has nothing to choose from here"):
        partition.compile(strategy="matrix product")


def test_a_limit_that_nothing_keeps_is_told():
    explanation = graph_of(DENSE).compile(scratch_limit=0).explain()[0]
    assert not explanation.scratch_bytes or any(
        "which nothing keeps" in reason for reason in explanation.rejected
    )


def test_explanations_are_a_text_for_people():
    text = str(graph_of(DENSE).compile().explain())
    assert text.startswith("partition 0, onednn: ")
    graph = og.Graph()
    graph.op("ReLU", graph.input("x", "f32", [-1]))
    assert "compiled when it is executed" in str(graph.compile().explain())


# --- measuring ------------------------------------------------------------------------------------------


def test_tuning_measures_remembers_and_reads_again(folder, monkeypatch):
    model = graph_of(DENSE).compile(tune="measure", tune_seconds=0.05)
    run(model, DENSE)
    explanation = model.explain()[0]
    times = [one.measured_seconds for one in explanation.considered if one.measured_seconds is not None]
    assert len(times) >= 2
    assert times[1:] == sorted(times[1:])
    assert times[0] * tuning.BETTER <= times[1]
    assert explanation.considered[0].strategy == explanation.strategy
    assert "measured" in str(explanation)
    (file,) = folder.glob("*.json")
    monkeypatch.setattr(tuning, "measure", lambda *args: pytest.fail("it was measured before"))
    again = graph_of(DENSE).compile(tune="measure").explain()[0]
    assert again.considered == explanation.considered
    assert graph_of(DENSE).compile(tune="cached").explain()[0].strategy == explanation.strategy
    # what is remembered decides, whatever the estimates say
    content = json.loads(file.read_text())
    last = explanation.considered[1].strategy
    content["seconds"][last] = 1e-9
    file.write_text(json.dumps(content))
    assert graph_of(DENSE).compile(tune="cached").explain()[0].strategy == last
    assert graph_of(DENSE).compile().explain()[0].considered[0].measured_seconds is None


def test_cached_measures_nothing(folder, monkeypatch):
    monkeypatch.setattr(tuning, "measure", lambda *args: pytest.fail("nobody asked"))
    run(graph_of(DENSE).compile(tune="cached"), DENSE)
    assert not list(folder.glob("*.json"))


@pytest.mark.parametrize("field", ["dtype", "data_format", "batch", "threads", "isa"])
def test_the_key_has_everything_that_times_depend_on(field, folder, monkeypatch):
    from dataclasses import replace

    other, threads = DENSE, None
    graph_of(DENSE).compile(tune="measure", tune_seconds=0.01)
    if field == "threads":
        threads = 3 + og.get_num_threads()
    elif field == "isa":
        monkeypatch.setattr(
            type(selection_engine()), "effective_isa", property(lambda self: "of a new machine")
        )
    else:
        other = replace(DENSE, **{field: {"dtype": "bf16", "data_format": "NCX", "batch": 5}[field]})
    graph_of(other).compile(tune="measure", tune_seconds=0.01, threads=threads)
    assert len(list(folder.glob("*.json"))) == 2


def key_for(
    engine, data_format="NXC", bias=False, gap=0, layout_type="strided", fpmath="strict", turned=False
):
    """The key of one problem in a certain way."""
    order = (0, 2, 3, 1) if turned else (0, 1, 2, 3)
    data = [(2, 8, 8, 16), (2, 8, 8, 32)]
    tensors = []
    for i, shape in enumerate(data):
        made = np.empty([shape[a] for a in order], np.float32).transpose(np.argsort(order))
        strides = [s // 4 for s in made.strides]
        strides[0] += gap if i == 0 else 0
        tensors.append(og.LogicalTensor(i, "f32", shape, strides=strides))
    dw = og.LogicalTensor(2, "f32", (3, 3, 16, 32), layout_type=layout_type)
    common = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    op = og.Op(0, DENSE.kind, tensors, [dw], weights_shape=[3, 3, 16, 32], **common)
    problem = problem_of(op, FpmathMode[fpmath])
    return tuning.key_of(engine, evolve(problem, bias=View((32,), (1,))) if bias else problem)


@pytest.mark.parametrize(
    "other",
    [
        {"bias": True},
        {"gap": 16},
        {"layout_type": "any"},
        {"turned": True},
        {"fpmath": "bf16"},
        {"fpmath": "any"},
    ],
    ids=str,
)
def test_the_key_tells_ways_apart_that_take_other_times(other):
    engine = NativeEngine()
    assert key_for(engine) == key_for(engine)
    assert key_for(engine, **other) != key_for(engine)


def test_times_of_one_fpmath_mode_are_not_those_of_another(folder):
    for mode in ("strict", "bf16", "strict"):
        graph = graph_of(DENSE, mode)
        graph.compile(tune="measure", tune_seconds=0.01)
    assert len(list(folder.glob("*.json"))) == 2


def selection_engine():
    from onednn_graph.backends.onednn.library.loading import load

    return load()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"key": {}, "seconds": {}}',
        '{"key": 5}',
        '{"key": {}, "seconds": {"a": "b"}}',
        "\x00\xff",
    ],
)
def test_a_broken_file_is_ignored_with_a_warning(content, folder):
    graph_of(DENSE).compile(tune="measure", tune_seconds=0.01)
    (file,) = folder.glob("*.json")
    file.write_bytes(content.encode("latin-1"))
    with pytest.warns(tuning_cache.TuningCacheWarning, match="is ignored"):
        model = graph_of(DENSE).compile(tune="cached")
    run(model, DENSE)
    with pytest.warns(tuning_cache.TuningCacheWarning, match="is ignored"):
        graph_of(DENSE).compile(tune="measure", tune_seconds=0.01)
    assert graph_of(DENSE).compile(tune="cached").explain()[0].considered[0].measured_seconds


def test_a_folder_that_cannot_be_written(folder, monkeypatch):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file in the way")
    with pytest.warns(tuning_cache.TuningCacheWarning) as said:
        run(graph_of(DENSE).compile(tune="measure", tune_seconds=0.01), DENSE)
    assert not [str(one.message) for one in said if "is ignored" in str(one.message)]  # there is none


def test_the_users_own_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("ONEDNN_GRAPH_CACHE")
    assert "onednn_graph" in str(tuning_cache.cache_folder())


def _tune_in_a_process(number):
    graph_of(DENSE).compile(tune="measure", tune_seconds=0.02)
    return any(tuning_cache.cache_folder().glob("*.json"))


def test_several_processes_at_once(folder):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert all(pool.map(_tune_in_a_process, range(6)))
    assert len(list(folder.iterdir())) == 1
    assert graph_of(DENSE).compile(tune="cached").explain()[0].considered[0].measured_seconds


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_tuned_results_are_exact(dtype, transposed):
    problem = Problem(
        transposed=transposed, groups=2, channels=(8, 4), size=(9, 10), kernel=(3, 2), dtype=dtype
    )
    run(graph_of(problem).compile(tune="measure", tune_seconds=0.02, verify=True), problem)


def test_tuning_with_an_opaque_output():
    src, diff_dst = DENSE.arrays()
    graph = og.Graph()
    tensors = [og.LogicalTensor(i, "f32", a.shape) for i, a in enumerate((src, diff_dst))]
    dw = og.LogicalTensor(2, "f32", layout_type="any")
    graph.add_op(og.Op(0, DENSE.kind, tensors, [dw], weights_shape=DENSE.weights_shape, **DENSE.attributes))
    graph.finalize()
    compiled = graph.get_partitions(backend="onednn")[0].compile(tune="measure", tune_seconds=0.02)
    (buffer,) = compiled.execute(None, [src, diff_dst])
    tensor = compiled.query_logical_tensor(2)
    result = og.Tensor.from_opaque(tensor, buffer, compiled.engine).numpy() if buffer.ndim == 1 else buffer
    check(DENSE, result, fast=True)


THREE = ("default", "other", "third")


@pytest.mark.parametrize(
    ("times", "order"),
    [
        ({"default": 1.0, "other": 0.98, "third": 0.99}, "default other third"),
        ({"default": 1.0, "other": 0.9, "third": 0.95}, "other third default"),
        ({"default": 1.0, "third": 2.0}, "default third other"),
        ({"other": 1.0, "third": 0.9}, "third other default"),
        ({}, "default other third"),
    ],
    ids=str,
)
def test_the_best_estimate_stays_first_where_times_are_alike(times, order):
    """What is measured a few percent faster may be slower the next time."""
    found = [Candidate(name, "jit", DataType.f32, Plan(NativeEngine(), []), ()) for name in THREE]
    sorted_ = tuning.by_times(found, {f"{name} [jit]": seconds for name, seconds in times.items()})
    assert [one.strategy for one in sorted_] == order.split()


def test_tuning_a_whole_graph(folder, capsys):
    graph = graph_of(DENSE)
    found = graph.tune(0.1)
    assert found[0].considered[0].measured_seconds
    assert graph.compile(tune="cached").explain()[0].strategy == found[0].strategy
    assert capsys.readouterr().err == ""
    for budget, error in ((0, og.ArgumentError), ("1", og.ArgumentTypeError), (True, og.ArgumentTypeError)):
        with pytest.raises(error, match="budget_seconds"):
            graph.tune(budget)


def test_progress_is_shown_on_a_terminal(monkeypatch, capsys):
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    graph_of(DENSE).tune(0.05)
    shown = capsys.readouterr().err
    assert "tuning ConvolutionBackwardWeights" in shown
    assert shown.endswith("\x1b[K")


def test_shapes_known_at_execution_are_left_out_of_tuning():
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [-1, 6, 5, 3]), graph.input("dy", "f32", [-1, 4, 4, 4])
    graph.op(Problem().kind, x, dy, weights_shape=Problem().weights_shape, **Problem().attributes)
    assert graph.tune(0.05) == {0: None}


def test_numpy_has_nothing_to_tune(folder):
    model = graph_of(DENSE).compile(backend="numpy", tune="measure")
    run(model, DENSE)
    assert model.explain()[0].considered == ()
    assert not folder.exists()
