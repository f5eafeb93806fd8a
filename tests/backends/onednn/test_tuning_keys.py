"""Times that are remembered belong to the CPU that they were measured on: a home directory may be that of several."""

import onednn_graph as og
import pytest
from onednn_graph.backends.onednn import tuning_cache
from onednn_graph.backends.onednn.library import loading
from onednn_graph.backends.onednn.library.cpu import cpu_kind
from onednn_graph.backends.onednn.plan import measured
from onednn_graph.backends.onednn.weight_gradients import machine, tuning

pytestmark = pytest.mark.usefixtures("onednn")

CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: {family}
model\t\t: 1
model name\t: AMD EPYC
stepping\t: 1
cpu MHz\t\t: {frequency}
flags\t\t: fpu avx2

processor\t: 1
vendor_id\t: AuthenticAMD
cpu family\t: 99
"""


WINDOW = ("strides", "pads_begin", "pads_end", "dilations")


def weight_gradient():
    graph = og.Graph()
    src, diff = graph.input("src", "f32", [1, 6, 6, 2]), graph.input("diff", "f32", [1, 4, 4, 2])
    window = {name: [int(not name.startswith("pads"))] * 2 for name in WINDOW}
    graph.op("ConvolutionBackwardWeights", src, diff, weights_shape=[3, 3, 2, 2], **window)
    return graph


def product():
    graph = og.Graph()
    graph.op("MatMul", graph.input("a", "f32", [8, 8]), graph.input("b", "f32", [8, 8]))
    return graph


@pytest.mark.parametrize(
    ("graph", "module"),
    [
        (weight_gradient(), tuning),
        (product(), measured),
    ],
    ids=["weight gradient", "product"],
)
def test_another_cpu_measures_for_itself(monkeypatch, tmp_path, graph, module):
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    asked = []
    plain = module.remembered

    def watched(key):
        times = plain(key)
        asked.append((key["machine"], bool(times)))
        return times

    monkeypatch.setattr(module, "remembered", watched)
    for cpu in ("one", "one", "another", "another", "one"):
        monkeypatch.setattr(loading, "cpu_kind", lambda cpu=cpu: cpu)
        graph.compile(backend="onednn", tune="measure", tune_seconds=0.001)
    assert [*dict.fromkeys(asked)] == [("one", False), ("one", True), ("another", False), ("another", True)]


def test_every_key_of_the_cache_has_the_machine(monkeypatch, tmp_path):
    """What would be written by code that makes a key of its own."""
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    monkeypatch.setattr(loading, "cpu_kind", lambda: "this one")
    lib = loading.load()
    machine.keep(lib, {"matmul *": 1.0})
    try:
        for graph in (weight_gradient(), product()):
            graph.compile(backend="onednn", tune="measure", tune_seconds=0.001)
    finally:
        machine.drop(lib)
    machine.keep(lib, {"matmul *": 1.0})
    files = [*tmp_path.glob("*.json")]
    assert len(files) >= 3
    for file in files:
        assert '"machine": "this one"' in file.read_text(), file
    assert tuning_cache.remembered(machine.key_of(lib))
    monkeypatch.setattr(loading, "cpu_kind", lambda: "that one")
    assert not tuning_cache.remembered(machine.key_of(lib))
    assert not machine.factors_of(lib)


def test_kinds_of_cpu_differ_by_more_than_their_names(tmp_path):
    """Virtual machines are called alike; frequencies change while one looks."""
    kinds = []
    for number, (family, frequency) in enumerate([(23, 2000), (25, 2000), (25, 3000.5)]):
        file = tmp_path / str(number)
        file.write_text(CPUINFO.format(family=family, frequency=frequency))
        kinds.append(cpu_kind(file))
    assert kinds[0] == "AuthenticAMD, 23, 1, AMD EPYC, 1"
    assert kinds[0] != kinds[1] == kinds[2]
    assert cpu_kind(tmp_path / "none")
