"""Compiled graphs in files: the same results to the bit, nothing packed again, refused elsewhere, safe when damaged."""

import gc
import json
import mmap
import os
import pickle
import tracemalloc

import bad_inputs
import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn import proven
from onednn_graph.backends.onednn.plan.constants import ConstantPlan
from onednn_graph.graph.compile import loading, saving
from onednn_graph.graph.runtime.mapped_files import LINE, map_tensors
from onednn_graph.graph.runtime.shared_constants import SharedConstants
from onednn_graph.graph.trust.store import STORE
from onednn_graph.graph.trust.verdict import Kind, Verdict

SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
RNG = np.random.default_rng(7)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def images(batch=2, channels=32):
    """Convolutions whose weights are packed, one of them a product."""
    graph = og.Graph()
    y = graph.input("x", "f32", [batch, channels, 9, 9])
    for number in range(2):
        weights = graph.constant(drawn(channels, channels, 3, 3), name=f"w{number}")
        y = graph.relu(graph.convolution(y, weights, **SAME, data_format="NCX", weights_format="OIX"))
    flat = graph.static_reshape(y, shape=[batch, -1], special_zero=False)
    graph.output(graph.matmul(flat, graph.constant(drawn(channels * 81, 40), name="v")), name="y")
    return graph, {"x": drawn(batch, channels, 9, 9)}


def texts():
    """Rows of a table by NumPy, and a product."""
    graph = og.Graph()
    table = graph.constant(drawn(50, 64), name="table")
    rows = graph.op("HostGather", table, graph.input("ids", "s32", [3, 7]), axis=0)
    chosen = graph.constant(np.arange(40, dtype=np.int32), name="chosen")
    table = graph.op("HostGather", graph.constant(drawn(64, 64), name="w"), chosen, axis=1)
    graph.output(graph.matmul(rows, table), name="y")
    return graph, {"ids": RNG.integers(0, 50, (3, 7)).astype(np.int32)}


def integers():
    graph, feeds = images()
    return graph.quantize_static([feeds]), feeds


def halves():
    graph, feeds = images()
    return graph.to("bf16"), feeds


def rows():
    """Any number of rows."""
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 64])
    graph.output(graph.relu(graph.matmul(x, graph.constant(drawn(64, 64), name="w"))), name="y")
    return graph, {"x": drawn(5, 64)}


def parameters():
    """A parameter, and an output that is a constant."""
    graph = og.Graph()
    y = graph.matmul(graph.input("x", "f32", [4, 8]), graph.parameter(drawn(8, 8), name="w"))
    graph.output(y, name="y")
    graph.output(graph.constant(drawn(3), name="c"), name="c")
    return graph, {"x": drawn(4, 8)}


def counting():
    """Changes a parameter at each call."""
    graph = og.Graph()
    count = graph.parameter(np.zeros(4, np.float32), name="count")
    total = graph.add(count, graph.input("x", "f32", [4]))
    graph.assign(count, total)
    graph.output(total, name="y")
    return graph, {"x": np.ones(4, np.float32)}


MODELS = [images, texts, integers, halves, rows, parameters]


def bits(results):
    return {name: (array.dtype.name, array.shape, array.tobytes()) for name, array in results.items()}


@pytest.fixture
def packed(monkeypatch):
    """How many things were made of constants."""
    count = []

    def run(self, addresses, arrays, keys, found, real=ConstantPlan._run):
        count.append(sum(one is None for one in found))
        return real(self, addresses, arrays, keys, found)

    monkeypatch.setattr(ConstantPlan, "_run", run)
    return count


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("backend", [None, "numpy"])
def test_what_is_loaded_gives_the_same_bits(make, backend, tmp_path):
    graph, feeds = make()
    model = graph.compile(backend=backend)
    wanted = model(feeds)
    model.save_compiled(tmp_path / "m.ogc")
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    assert (loaded.input_names, loaded.output_names) == (model.input_names, model.output_names)
    assert bits(loaded(feeds)) == bits(wanted)
    told = [
        line for line in str(model.explain()).splitlines() if not line.startswith("  verified on integer")
    ]
    assert str(loaded.explain()).splitlines() == told  # what is loaded is not verified again
    assert bits(pickle.loads(pickle.dumps(loaded))(feeds)) == bits(wanted)


@pytest.mark.parametrize("make", [images, integers, rows])
def test_what_was_packed_is_not_packed_again(make, tmp_path, onednn, packed):
    graph, feeds = make()
    model = graph.compile()
    model(feeds)
    if not packed:
        pytest.skip("this CPU's kernels take weights as they lie")
    model.save_compiled(tmp_path / "m.ogc")
    packed.clear()
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    loaded(feeds)
    assert packed == []


def test_a_model_that_was_never_called_is_packed_when_it_is_saved(tmp_path, onednn, packed):
    graph, feeds = images()
    graph.compile().save_compiled(tmp_path / "m.ogc")
    if not packed:
        pytest.skip("this CPU's kernels take weights as they lie")
    packed.clear()
    og.Graph.load_compiled(tmp_path / "m.ogc")(feeds)
    assert packed == []


def test_what_a_file_lacks_is_made_alone(tmp_path, onednn, packed, monkeypatch):
    """One of what was made is of another size than it must be: that is made anew, the rest stays in the file."""
    graph, feeds = images()
    model = graph.compile()
    wanted = model(feeds)
    if not packed or packed[0] < 2:
        pytest.skip("this CPU's kernels take weights as they lie")
    real = SharedConstants.items
    lost = []

    def but_one(self):
        kept = real(self)
        lost.append(kept.popitem())
        return kept

    monkeypatch.setattr(SharedConstants, "items", but_one)
    model.save_compiled(tmp_path / "m.ogc")
    packed.clear()
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    assert bits(loaded(feeds)) == bits(wanted)
    assert packed == [1]


def test_constants_are_mapped_and_not_copied(tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 1024])
    for number in range(4):
        x = graph.matmul(x, graph.constant(drawn(1024, 1024), name=f"w{number}"))
    graph.compile().save_compiled(tmp_path / "m.ogc")
    feeds = {"x": drawn(4, 1024)}
    og.Graph.load_compiled(tmp_path / "m.ogc")(feeds)  # what is imported, and kept for all, is there then
    gc.collect()
    tracemalloc.start()
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    loaded(feeds)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < peak < 2**20 < os.path.getsize(tmp_path / "m.ogc") // 8


def test_each_tensor_begins_at_a_cache_line_and_stands_once(tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 3])
    graph.output(graph.matmul(x, graph.constant(drawn(3, 5), name="w")), name="y")
    model = graph.compile()
    for batch in (1, 2):
        model(drawn(batch, 3))
    model.save_compiled(tmp_path / "m.ogc")
    file = map_tensors(tmp_path / "m.ogc")
    for name, array in file.arrays.items():
        assert array.__array_interface__["data"][0] % LINE == 0, name
        assert not array.flags.writeable
        base = array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, mmap.mmap if not isinstance(base, memoryview) else memoryview)
    assert sum(name.startswith("constant") for name in file.arrays) == 1


def test_safetensors_reads_such_files(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    graph, _ = parameters()
    graph.compile().save_compiled(tmp_path / "m.ogc")
    read = safetensors.load_file(tmp_path / "m.ogc")
    for name, array in map_tensors(tmp_path / "m.ogc").arrays.items():
        np.testing.assert_array_equal(read[name], array)


def test_parameters_are_the_loaded_models_own(tmp_path):
    graph, feeds = counting()
    model = graph.compile()
    model(feeds)
    model.save_compiled(tmp_path / "m.ogc")
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    assert [loaded(feeds)["y"][0] for _ in range(2)] == [2, 3]
    assert model(feeds)["y"][0] == 2
    assert og.Graph.load_compiled(tmp_path / "m.ogc")(feeds)["y"][0] == 2


def test_options_are_kept_and_nothing_is_measured_again(tmp_path):
    graph, feeds = images()
    model = graph.compile(policy="debug", threads=1, tune="online", scratch_limit=2**30)
    model(feeds)
    model.save_compiled(tmp_path / "m.ogc")
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    kept = {name: getattr(loaded.options, name) for name in ("policy", "threads", "tune", "scratch_limit")}
    assert kept == {"policy": "debug", "threads": 1, "tune": "cached", "scratch_limit": 2**30}


def test_an_engine_can_be_given(tmp_path):
    graph, feeds = images()
    model = graph.compile(threads=1)
    model.save_compiled(tmp_path / "m.ogc")
    with og.Engine() as engine:
        assert og.Graph.load_compiled(tmp_path / "m.ogc", engine).engine is engine
    with pytest.raises(og.errors.ResourceError, match="closed"):
        og.Graph.load_compiled(tmp_path / "m.ogc", engine)(feeds)


# --- open sizes ---


def opened():
    """A graph for each set of sizes, as models of ONNX are."""
    weights = drawn(6, 6)

    def make(shapes):
        graph = og.Graph()
        x = graph.input("x", "f32", list(shapes["x"]))
        y = graph.matmul(x, graph.constant(weights, name="w"))
        graph.output(graph.static_reshape(y, shape=[-1], special_zero=False), name="y")
        return graph

    x = og.LogicalTensor(0, "f32", [-1, 6], name="x")
    y = og.LogicalTensor(1, "f32", [-1], name="y")
    return og.OpenGraph([x], [("y", y)], make)


def test_open_sizes_are_those_that_were_met(tmp_path):
    model = opened().compile()
    with pytest.raises(og.ArgumentError, match="no input sizes yet.*call it once for each"):
        model.save_compiled(tmp_path / "m.ogc")
    wanted = {batch: bits(model(np.full((batch, 6), 0.5, np.float32))) for batch in (1, 3)}
    model.save_compiled(tmp_path / "m.ogc")
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    for _ in range(2):
        assert {batch: bits(loaded(np.full((batch, 6), 0.5, np.float32))) for batch in (3, 1)} == wanted
    with pytest.raises(
        og.UnsupportedError, match=r"input sizes x \[1, 6\]; x \[3, 6\], got x \[2, 6\]; call"
    ):
        loaded(np.zeros((2, 6), np.float32))
    assert sum(name.startswith("constant") for name in map_tensors(tmp_path / "m.ogc").arrays) == 1
    again = pickle.loads(pickle.dumps(loaded))
    assert bits(again(np.full((3, 6), 0.5, np.float32))) == wanted[3]
    loaded.save_compiled(tmp_path / "n.ogc")  # what was loaded can be saved
    assert bits(og.Graph.load_compiled(tmp_path / "n.ogc")(np.full((3, 6), 0.5, np.float32))) == wanted[3]


# --- elsewhere ---

ELSEWHERE = """
import json, sys
import numpy as np
import onednn_graph as og
try:
    og.Graph.load_compiled(sys.argv[1])
    refused = ""
except og.GraphFileError as error:
    refused = str(error)
model = og.Graph.load_compiled(sys.argv[1], recompile=True)
feeds = dict(np.load(sys.argv[2]))
print(json.dumps({"refused": refused, "y": model(feeds)["y"].tolist()}))
"""


def test_another_instruction_set_is_refused_or_compiled_anew(tmp_path, onednn):
    graph, feeds = images()
    model = graph.compile()
    wanted = model(feeds)["y"]
    model.save_compiled(tmp_path / "m.ogc")
    np.savez(tmp_path / "feeds.npz", **feeds)
    here = loading.made_for(model.engine, {})["instruction set"]
    other = "AVX2" if here.upper() != "AVX2" else "SSE41"
    told = processes.printed(
        ELSEWHERE,
        str(tmp_path / "m.ogc"),
        str(tmp_path / "feeds.npz"),
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": other},
    )
    assert f"m.ogc: was compiled for instruction set {here}, and here is instruction set" in told["refused"]
    assert other.lower() in told["refused"].lower()
    assert told["refused"].endswith("or load it with recompile=True, which takes as long as compiling")
    np.testing.assert_allclose(told["y"], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("what", ["onednn_graph", "oneDNN", "threads"])
def test_whatever_else_differs_is_named(what, tmp_path, monkeypatch, onednn):
    graph, feeds = images()
    model = graph.compile()
    model.save_compiled(tmp_path / "m.ogc")
    there = saving.made_for(model.engine, {})
    monkeypatch.setattr(loading, "made_for", lambda engine, options: {**there, what: "other"})
    with pytest.raises(
        og.GraphFileError, match=f"for {what} {there[what]}, and here is {what} other; compile"
    ):
        og.Graph.load_compiled(tmp_path / "m.ogc")
    np.testing.assert_allclose(
        og.Graph.load_compiled(tmp_path / "m.ogc", recompile=True)(feeds)["y"], model(feeds)["y"], rtol=1e-5
    )


def test_the_number_of_threads_is_that_of_the_compilation(tmp_path):
    graph, _ = rows()
    graph.compile(threads=1).save_compiled(tmp_path / "one.ogc")
    graph.compile(threads=2).save_compiled(tmp_path / "two.ogc")
    former = og.get_num_threads()
    graph.compile().save_compiled(tmp_path / "default.ogc")
    og.set_num_threads(former + 1)
    try:
        for name in ("one", "two"):
            og.Graph.load_compiled(tmp_path / f"{name}.ogc")
        with pytest.raises(og.GraphFileError, match=f"threads {former}, and here is threads {former + 1};"):
            og.Graph.load_compiled(tmp_path / "default.ogc")
    finally:
        og.set_num_threads(None)


def test_a_kernel_that_was_found_wrong_since_does_not_run(tmp_path, onednn, monkeypatch):
    """What is loaded is trusted as what is compiled is: by verdicts, of now."""
    monkeypatch.setattr(proven, "PROVEN", {})
    graph, feeds = images()
    model = graph.compile()
    wanted = model(feeds)
    (told,) = {id(one): one for one in model.explain().values()}.values() if len(model.explain()) == 1 else [
        next(iter(model.explain().values()))
    ]  # fmt: skip
    accused = next(step for step in told.steps if step.trust and not step.prepared)
    model.save_compiled(tmp_path / "m.ogc")
    STORE.put({accused.trust: Verdict(Kind.wrong, "3 of 20 elements are wrong", accused.name)})
    loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
    assert all(step.trust != accused.trust for one in loaded.explain().values() for step in one.steps)
    np.testing.assert_allclose(loaded(feeds)["y"], wanted["y"], rtol=1e-4, atol=1e-3)


# --- files that are none ---


def saved(tmp_path):
    graph, _ = texts()
    graph.compile().save_compiled(tmp_path / "m.ogc")
    return tmp_path / "m.ogc"


def test_files_that_are_none_are_one_error(tmp_path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    with pytest.raises(og.errors.MissingFileError, match=r"none.ogc: can't be read: No such file"):
        og.Graph.load_compiled(tmp_path / "none.ogc")
    with pytest.raises(og.ArgumentTypeError, match="path"):
        og.Graph.load_compiled(7)
    with pytest.raises(og.ArgumentTypeError, match="recompile must be True or False, got 1"):
        og.Graph.load_compiled(path, recompile=1)
    other = tmp_path / "other.ogc"
    for content in (
        b"",
        b"\0" * 8,
        b"\xff" * 100,
        whole[:7],
        whole[:500],
        whole[: len(whole) // 2],
        whole[:-1],
    ):
        other.write_bytes(content)
        with pytest.raises(og.GraphFileError, match=r"other.ogc: can't be read: "):
            og.Graph.load_compiled(other)
    at = whole.index(b"host_gather" if b"host_gather" in whole else b"HostGather")
    other.write_bytes(whole[:at] + b"X" + whole[at + 1 :])
    with pytest.raises(og.GraphFileError, match="is damaged .*is not what was saved.*save it again"):
        og.Graph.load_compiled(other)
    header = json.dumps({"x": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}).encode()
    other.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(
        og.GraphFileError, match=r"other.ogc: (was not written by save_compiled|can't be read)"
    ):
        og.Graph.load_compiled(other)


def test_a_file_without_a_graph_is_damaged(tmp_path):
    saving.save(tmp_path / "m.ogc", [], None, og.default_engine(), og.CompileOptions())
    with pytest.raises(og.GraphFileError, match="is damaged .it has 0 graphs for one.; save it again"):
        og.Graph.load_compiled(tmp_path / "m.ogc")


def test_a_file_can_be_replaced_while_it_is_in_use(tmp_path):
    path = saved(tmp_path)
    loaded = og.Graph.load_compiled(path)
    ids = np.zeros((3, 7), np.int32)
    before = bits(loaded(ids))
    graph, _ = images()
    graph.compile().save_compiled(path)
    assert bits(loaded(ids)) == before


MUTANTS = """
import json, sys
import numpy as np
import onednn_graph as og
from pathlib import Path
seed, count = map(int, sys.argv[2:4])
whole = Path(sys.argv[1]).read_bytes()
header = 8 + int.from_bytes(whole[:8], "little")
rng = np.random.default_rng(seed)
feeds = np.arange(21, dtype=np.int32).reshape(3, 7) % 6
told = {}
path = Path(f"{sys.argv[1]}.{seed}")
for number in range(count):
    content = bytearray(whole)
    reach = header if number % 4 else len(whole)
    for place in rng.integers(0, reach, rng.integers(1, 4)):
        content[place] = rng.integers(0, 256) if number % 2 else rng.choice(list(b'0123456789[]{}",:'))
    if number % 7 == 0:
        del content[rng.integers(0, len(content)) :]
    path.write_bytes(content)
    try:
        og.Graph.load_compiled(path)(feeds)
        name = "ran"
    except og.OneDNNGraphError as error:
        name = type(error).__name__
    told[name] = told.get(name, 0) + 1
print(json.dumps(told))
"""


@pytest.mark.parametrize("seed", range(3))
def test_changed_bytes_never_crash(tmp_path, seed):
    told = processes.printed(MUTANTS, str(saved(tmp_path)), str(seed), "200")
    assert sum(told.values()) == 200
    assert {"ran", "GraphFileError"} <= set(told)


def test_what_an_op_of_the_users_makes_of_constants_is_in_no_file(tmp_path, onednn):
    """The op may be another one where the file is read."""
    schema = bad_inputs.schema(kind="Scale", pure=True)
    graph, ones = og.Graph(), np.ones((4, 64), np.float32)

    def run(make, factor):
        def kernel(op, inputs, outputs):
            outputs[0][...] = inputs[0] * factor

        og.extend.register_op(schema, kernel)
        try:
            model = make()
            np.testing.assert_array_equal(model(ones)["y"], 64 * factor)
            model.save_compiled(tmp_path / "m.ogc")
        finally:
            og.extend.unregister_op("Scale")

    def compiled():
        weights = graph.op("Scale", graph.constant(np.ones((64, 64), np.float32)))
        graph.output(graph.matmul(graph.input("x", "f32", [4, 64]), weights), name="y")
        return graph.compile()

    run(compiled, 2)
    run(lambda: og.Graph.load_compiled(tmp_path / "m.ogc"), 3)
