"""Regions run on memory by its address, with nothing copied; they need no torch."""

from collections import Counter

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.graph.compile.options import CompileOptions
from onednn_graph.graph.runtime.arrays import address
from onednn_graph.graph.torch_compile.run.region import Region
from onednn_graph.ops.errors import LibraryError

NXC = (8 * 36, 1, 6 * 8, 8)
"""Strides of 2×8×6×6 with channels innermost."""


def has_library() -> bool:
    try:
        load()
    except LibraryError:
        return False
    return True


def integers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def run(region: Region, given: dict[str, np.ndarray], results: list[np.ndarray], prepared=None) -> None:
    arrays = [*(given[name] for name in region.graph.input_names), *results]
    places = [address(array) for array in arrays]
    region.run(places, region.prepare(places) if prepared is None else prepared)


def convolution(counts: bool = False) -> tuple[og.Graph, int]:
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 3, 6, 6))
    weights = graph.input("weights", "f32", (8, 3, 3, 3), property_type="constant")
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = graph.op("Convolution", x, weights, **window, data_format="NCX", weights_format="OIX")
    made = graph.op("ReLU", y)
    graph.output(made, name="y")
    if counts:
        count = graph.input("count", "s64", ())
        graph.output(graph.op("HostAdd", count, graph.constant(np.asarray(1))), name="count.1")
    return graph, made.id


def expected(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.maximum(np.einsum("ncxyij,ocij->noxy", windows, weights), 0)


def test_results_lie_as_asked():
    graph, number = convolution()
    region = Region(graph, {number: NXC}, CompileOptions())
    given = {"x": integers((2, 3, 6, 6), 1), "weights": integers((8, 3, 3, 3), 2)}
    memory = np.full((2, 6, 6, 8), np.nan, np.float32)
    run(region, given, [memory])
    np.testing.assert_array_equal(memory.transpose(0, 3, 1, 2), expected(**given))


@pytest.mark.skipif(not has_library(), reason="oneDNN can't be loaded on this machine")
def test_an_op_on_the_host_beside_leaves_the_others_on_the_library():
    graph, number = convolution(counts=True)
    region = Region(graph, {number: NXC}, CompileOptions())
    assert Counter(one.backend for one in region.record) == {"onednn": 2, "numpy": 1}
    given = {"x": integers((2, 3, 6, 6), 1), "weights": integers((8, 3, 3, 3), 2), "count": np.asarray(6)}
    memory, count = np.full((2, 6, 6, 8), np.nan, np.float32), np.zeros((), np.int64)
    run(region, given, [memory, count])
    assert count == 7
    np.testing.assert_array_equal(memory.transpose(0, 3, 1, 2), expected(given["x"], given["weights"]))


@pytest.mark.skipif(not has_library(), reason="oneDNN can't be loaded on this machine")
def test_what_was_prepared_stands_for_the_constants_of_that_time():
    graph, _ = convolution()
    region = Region(graph, {}, CompileOptions())
    given = {"x": integers((2, 3, 6, 6), 1), "weights": integers((8, 3, 3, 3), 2)}
    before = expected(**given)
    result = np.empty((2, 8, 6, 6), np.float32)
    places = [address(given["x"]), address(given["weights"]), address(result)]
    prepared = region.prepare(places[:2])
    assert any(one is not None for one in prepared)
    given["weights"][...] = 0
    region.run(places, prepared)
    np.testing.assert_array_equal(result, before)
    region.run(places, region.prepare(places[:2]))
    assert not result.any()


def test_numpy_alone_runs_on_addresses_too():
    graph = og.Graph()
    x = graph.input("x", "s64", (4, 5), strides=(1, 4))
    graph.output(graph.op("HostAdd", x, graph.constant(np.asarray(10))), name="y")
    region = Region(graph, {}, CompileOptions())
    given = np.asfortranarray(np.arange(20).reshape(4, 5))
    result = np.zeros((4, 5), np.int64)
    run(region, {"x": given}, [result])
    np.testing.assert_array_equal(result, given + 10)


def test_sizes_that_hang_on_values_are_refused():
    graph = og.Graph()
    x = graph.input("x", "f32", (1, 2, 4, 5))
    sizes = graph.input("sizes", "s32", (2,))
    graph.output(graph.op("Interpolate", x, sizes, mode="nearest", data_format="NCX"), name="y")
    with pytest.raises(og.OneDNNGraphError, match="known at execution only"):
        Region(graph, {}, CompileOptions())
