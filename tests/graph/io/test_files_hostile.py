"""Small files and arguments that would hang, exhaust memory or end in an exception that is not ours."""

import copy
import json
import os
import random
import sys

import numpy as np
import onednn_graph as og
import processes
import pytest
from graph_documents import chain, put, text, valid
from onednn_graph.backends.onednn import tuning_cache

LARGEST = 2**64 - 1


@pytest.mark.parametrize("where", ["op", "tensor"])
def test_ids_may_be_the_largest_and_ops_can_be_added(where):
    document = valid()
    if where == "op":
        document["graph"][0]["id"] = LARGEST
    else:
        for op in document["graph"]:
            op["inputs"][1]["id"] = LARGEST
    graph = og.Graph.from_json(text(document))
    source = graph.tensor(0)
    added = [graph.relu(source) for _ in range(3)]
    added.append(graph.add(added[0], added[1]))
    ids = [t.id for t in graph.tensors]
    assert len(set(ids)) == len(ids)
    assert len({op.id for op in graph.ops}) == len(graph.ops) == 6
    feeds = {t.id: np.ones(t.dims, "f4") for t in graph.inputs}
    wanted = graph.compile(backend="numpy")(feeds)
    rewritten = og.Graph.from_json(text(document)).to("bf16").compile(backend="numpy")(feeds)
    assert {t.id for t in added} - {t.id for t in graph.outputs} == {added[0].id, added[1].id}
    for name, array in rewritten.items():
        np.testing.assert_allclose(np.asarray(array, "f4"), wanted[name], rtol=0.05)


def test_scales_by_the_channels_of_groups_are_counted_by_arithmetic():
    graph = og.Graph()
    x = graph.input("x", "f32", [2**40, 3])
    with pytest.raises(og.ShapeError, match="attribute 'scales' must have 3 values"):
        graph.quantize(x, scales=[1.0] * 5, zps=[0] * 5, qtype="per_channel", axis=1)
    graph.quantize(x, scales=[1.0] * 6, zps=[0] * 6, qtype="per_channel", axis=1)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b"{}",
        b"null",
        b'{"key": 5, "seconds": {"x": 1e400}}',
        b'{"key": {"a": 1}, "seconds": {"x": ' + b"9" * 400 + b"}}",
        b'{"key": {"a": 1}, "seconds": {"x": ' + b"9" * 5000 + b"}}",
        b'{"key": {"a": 1}, "seconds": {"x": NaN}}',
        b'{"key": {"a": 1}, "seconds": {"x": Infinity}}',
        b'{"key": {"a": 1}, "seconds": {"x": "y"}}',
        b'{"key": {"a": 1}, "seconds": [1]}',
        b" " * 2**21,
    ],
)
def test_tuning_files_that_are_none(tmp_path, monkeypatch, content):
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    tuning_cache.remember({"a": 1}, {"x": 1.0})
    [path] = tmp_path.iterdir()
    path.write_bytes(content)
    with pytest.warns(tuning_cache.TuningCacheWarning, match="is ignored"):
        assert tuning_cache.remembered({"a": 1}) == {}


@pytest.mark.parametrize("path", [None, 5, b"x", [], "a\0b"])
def test_no_path_of_a_library(path):
    with pytest.raises(og.ArgumentTypeError, match=r"use_library takes the path of a libdnnl\.so, got"):
        og.use_library(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="of POSIX systems")
@pytest.mark.parametrize("source", ["/dev/zero", "/dev/full", "-"])
def test_the_command_line_reads_no_more_than_a_graph_can_have(source):
    with open("/dev/zero", "rb") as zeros:
        done = processes.run(["-m", "onednn_graph", "show", source], stdin=zeros, timeout=60)
    assert done.returncode == 2, done.stderr
    assert b"is neither JSON nor ONNX, for it begins with a zero byte" in done.stderr


NUMBERS = [
    0,
    -1,
    1,
    2**31 - 1,
    2**31,
    2**40,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64 - 1,
    10**30,
    0.5,
    1e999,
    -1e999,
]
OTHERS = [None, True, "", "x", "NXC", "per_channel", "f32", [], {}, [[]], [0], [2**31] * 3]


def parsed():
    """Documents of several families."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 4, 6, 6])
    y = graph.max_pool(x, kernel=[2, 2], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0])
    z = graph.softmax(graph.static_reshape(y, shape=[2, -1], special_zero=False), axis=1)
    graph.static_transpose(graph.reduce_sum(z, axes=[1], keep_dims=True), order=[1, 0])
    graph.quantize(x, scales=[0.5] * 4, zps=[0] * 4, qtype="per_channel", axis=1)
    statistics = [graph.input(name, "f32", [4]) for name in "gbmv"]
    graph.batch_norm_inference(x, *statistics, epsilon=1e-5, data_format="NCX")
    graph.interpolate(x, mode="nearest", sizes=[3, 3], coordinate_transformation_mode="half_pixel")
    return [valid(), chain(), json.loads(graph.to_json())]


def spots(value):
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from spots(value[key])


def mutated(document, draw):
    for _ in range(draw.randint(1, 3)):
        place, key = draw.choice(list(spots(document)))
        match draw.randrange(5):
            case 0:
                del place[key]
            case 1:
                place[key] = draw.choice(NUMBERS)
            case 2:
                place[key] = copy.deepcopy(draw.choice(OTHERS))
            case 3 if isinstance(place, list):
                place.insert(key, copy.deepcopy(place[key]))
            case _:
                if isinstance(place[key], list) and place[key]:
                    place[key] = [draw.choice(NUMBERS)] * len(place[key])
        if not document:
            break
    return document


def fuzz(seed, number):
    """Each mutated document works or ends in an error of ours; where it does not, it is printed."""
    draw = random.Random(seed)
    sources = parsed()
    for turn in range(number):
        document = mutated(copy.deepcopy(draw.choice(sources)), draw)
        print(turn, json.dumps(document), flush=True)
        try:
            graph = og.Graph.from_json(json.dumps(document))
            graph.finalize()
            small = all(t.is_concrete and t.nbytes < 2**20 for t in graph.tensors)
            if small:
                graph.compile(backend=draw.choice([None, "numpy"]))(
                    {t.id: np.zeros(t.dims, "f4") for t in graph.inputs}
                )
        except og.OneDNNGraphError:
            continue


@pytest.mark.parametrize(("seed", "number"), [(0, 60), pytest.param(1, 1500, marks=pytest.mark.long)])
def test_mutated_documents_end_in_our_errors_within_bounds(seed, number):
    """In a child of 3 GiB that must be done in time; the last line that it says is the document that broke it."""
    pytest.importorskip("resource", reason="of POSIX systems")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2); "
        f"sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}; "
        f"import test_files_hostile; test_files_hostile.fuzz({seed}, {number})"
    )
    done = processes.run(["-c", script], timeout=600)
    assert done.returncode == 0, (done.stderr[-2000:], done.stdout.splitlines()[-1:])


def test_the_document_s_own_keys_are_the_only_ones():
    with pytest.raises(og.GraphFileError, match="weights_id must be a string"):
        og.Graph.from_json(text(put("weights_id", 5)))
