"""The ops that average gradients: where they stand, what goes into which bucket, and what is refused."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from lone import Lone
from onednn_graph.graph.runtime import communication
from onednn_graph.graph.training.averaging import averaged
from onednn_graph.graph.training.batch_norm import synchronise_batch_norm
from rank_programs import PARAMETERS, network, normalised, normalised_feeds, whole_batch

LAYERS = 4


def chain(comm, *, data_type="f32"):
    """Some layers with their gradients averaged; gradients get ready from the last layer to the first."""
    graph = og.Graph()
    h = graph.input("x", data_type, [8, 16])
    weights = [graph.input(f"w{i}", data_type, [16, 16]) for i in range(LAYERS)]
    for w in weights:
        h = graph.op("ReLU", graph.op("MatMul", h, w))
    loss = graph.op("ReduceMean", h, axes=[0, 1], keep_dims=False)
    found = list(averaged(graph, comm, loss, graph.gradients(loss, weights)))
    for name, tensor in zip(("loss", *(f"d{i}" for i in range(LAYERS))), found, strict=True):
        graph.output(tensor, name=name)
    return graph


def test_a_gradient_is_sent_before_the_next_layer_goes_on():
    graph = chain(Lone())
    graph.finalize()
    kinds = [op.kind for op in graph.ops]
    starts = [n for n, kind in enumerate(kinds) if kind == "HostMeanStart"]
    products = [n for n, kind in enumerate(kinds) if kind == "MatMul"]
    ends = [n for n, kind in enumerate(kinds) if kind == "HostMeanEnd"]
    assert len(starts) == len(ends) == 1 + LAYERS
    assert max(starts) < min(ends)
    # Forward, the loss, and then each layer's gradient before the one of the layer in front of it.
    for number, start in enumerate(starts[1:-1], 1):
        assert sum(product > start for product in products) >= 2 * (LAYERS - 1 - number)


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_what_runs_keeps_that_order(backend):
    comm = Lone(bucket_bytes=2 * 16 * 16 * 4)
    model = chain(comm).compile(backend=backend)
    rng = np.random.default_rng(1)
    feeds = {"x": rng.normal(size=(8, 16)), **{f"w{i}": rng.normal(size=(16, 16)) for i in range(LAYERS)}}
    with og.profile() as profile:
        model({name: array.astype(np.float32) for name, array in feeds.items()})
    assert comm.written == [(b, p) for b, (sizes, _) in enumerate(comm.layouts) for p in range(len(sizes))]
    events = sorted(profile.events, key=lambda event: event.start)
    done = [event.name.lower() for event in events if event.kind is not og.profiling.EventKind.partition]
    starts = [n for n, name in enumerate(done) if name == "hostmeanstart"]
    products = [n for n, name in enumerate(done) if name.startswith("matmul")]
    assert (len(starts), len(products)) == (1 + LAYERS, 3 * LAYERS - 1)
    for number, start in enumerate(starts[1:-1], 1):
        assert sum(product > start for product in products) >= 2 * (LAYERS - number) - 1


@pytest.mark.parametrize(
    ("nbytes", "sent", "data_type", "buckets"),
    [
        (1, "f32", "f32", [[1], [256], [256], [256], [256]]),
        (1024, "f32", "f32", [[1, 256], [256], [256], [256]]),
        (1028, "f32", "f32", [[1, 256], [256, 256], [256]]),
        (2048, "f32", "f32", [[1, 256, 256], [256, 256]]),
        (1 << 20, "f32", "f32", [[1, 256, 256, 256, 256]]),
        (1024, "bf16", "f32", [[256, 256], [256, 256], [1]]),
        (1 << 20, "bf16", "f64", [[1, 256, 256, 256, 256]]),
    ],
)
def test_buckets_are_filled_in_the_order_of_the_backward_pass(nbytes, sent, data_type, buckets):
    comm = Lone(nbytes, sent)
    chain(comm, data_type=data_type)
    assert [list(sizes) for sizes, _ in comm.layouts] == buckets
    for sizes, kind in comm.layouts:
        assert kind.value == (data_type if data_type == "f64" else "f32" if 1 in sizes else sent)


def test_what_has_no_gradient_or_shares_one():
    graph = og.Graph()
    x, w, unused = (graph.input(name, "f32", [4]) for name in ("x", "w", "unused"))
    loss = graph.op("ReduceSum", graph.op("Multiply", x, w), axes=[0], keep_dims=False)
    by_w, nothing = graph.gradients(loss, [w, unused])
    found = list(averaged(graph, Lone(), loss, [by_w, nothing, by_w]))
    assert found[2] is None
    assert found[1] is found[3]


def test_each_end_is_added_when_its_mean_is_asked_for():
    graph = og.Graph()
    x, w = (graph.input(name, "f32", [4]) for name in ("x", "w"))
    loss = graph.op("ReduceSum", graph.op("Multiply", x, w), axes=[0], keep_dims=False)
    means = averaged(graph, Lone(), loss, graph.gradients(loss, [w]))
    next(means)
    graph.op("Square", next(means))
    assert [op.kind for op in graph.ops[-3:]] == ["HostMeanEnd", "HostMeanEnd", "Square"]


def test_open_sizes_are_refused():
    graph = og.Graph()
    x, w = (graph.input(name, "f32", [-1]) for name in ("x", "w"))
    loss = graph.op("ReduceSum", graph.op("Multiply", x, w), axes=[0], keep_dims=False)
    with pytest.raises(og.UnsupportedError, match="needs all sizes of .*w|needs all sizes of"):
        next(averaged(graph, Lone(), loss, [graph.gradients(loss, [w])[0]]))


def test_alone_the_means_are_the_gradients():
    feeds = {**whole_batch(), **PARAMETERS}
    want, have = (network(8, comm).compile()(feeds) for comm in (None, Lone(bucket_bytes=700)))
    for name in ("mean_loss", *(f"mean_{p}" for p in PARAMETERS)):
        np.testing.assert_array_equal(have[name], want[name])


@pytest.mark.parametrize("affine", [0, 1, 2])
@pytest.mark.parametrize("data_type", ["f32", "bf16"])
def test_batch_norm_written_out_is_batch_norm(affine, data_type):
    found = []
    feeds = normalised_feeds(dtype=np.float32)
    for comm in (None, Lone()):
        graph = og.Graph()
        x = graph.input("x", data_type, [8, 2, 6, 6])
        stats = [graph.input(n, "f32", [2]) for n in ("mean", "variance", "gamma", "beta")[: 2 + affine]]
        made = graph.op(
            "BatchNormForwardTraining", x, *stats, epsilon=0.25, momentum=0.5, data_format="NCX", outputs=5
        )
        for number, tensor in enumerate(made):
            graph.output(tensor, name=f"{number}")
        if comm is not None:
            synchronise_batch_norm(graph, comm)
            assert "BatchNormForwardTraining" not in {op.kind for op in graph.ops}
        model = graph.compile(backend="numpy")
        given = {name: feeds[name] for name in model.input_names}
        given["x"] = given["x"].astype(ml_dtypes.bfloat16 if data_type == "bf16" else np.float32)
        result = model(given)
        found.append([np.asarray(result[f"{n}"], np.float32) for n in range(5)])
    for have, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5 if data_type == "f32" else 1e-2, atol=1e-5)


def test_graphs_of_one_process_are_not_saved(tmp_path):
    graph = network(8, Lone())
    with pytest.raises(
        og.GraphFileError, match="speaks to other processes .* save the graph as it was before"
    ):
        graph.save(tmp_path / "graph.json")
    with pytest.raises(og.GraphFileError, match="HostRankSum .* speaks to other processes"):
        normalised(8, "f32", Lone()).to_json()
    assert not list(tmp_path.iterdir())


def test_a_communicator_that_is_gone_is_an_error():
    comm = Lone()
    model = network(8, comm).compile()
    feeds = {**whole_batch(), **PARAMETERS}
    model(feeds)
    communication.leave(comm)
    with pytest.raises(og.errors.ResourceError, match="open communicator of this process"):
        model(feeds)


def test_an_op_is_taken_out_for_others():
    graph = og.Graph()
    x = graph.input("x", "f32", [3])
    y = graph.op("Square", x)
    op = graph.ops[0]
    graph.take_out(op)
    assert [t.id for t in graph.inputs] == [x.id]
    graph.add_op(og.Op(50, "ReLU", [x], [y]))
    np.testing.assert_array_equal(graph.compile()({"x": np.float32([-1, 0, 2])})[y], [0, 0, 2])
    graph.finalize()
    with pytest.raises(og.GraphError, match="finalized"):
        graph.take_out(graph.ops[0])
    with pytest.raises(og.GraphError, match="has no Square"):
        og.Graph().take_out(op)
