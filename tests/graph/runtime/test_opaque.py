"""Opaque tensors: no public call takes a layout for another, or a buffer that is too small."""

import copy
import gc
import pickle
import threading

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.memory import MemoryDesc, OpaqueLayout
from onednn_graph.graph.model.logical_tensor import LayoutType
from onednn_graph.graph.runtime.layouts import Layouts
from onednn_graph.ops.data_types import DataType

SAME = {
    "strides": [1, 1],
    "pads_begin": [1, 1],
    "pads_end": [1, 1],
    "dilations": [1, 1],
    "data_format": "NCX",
    "weights_format": "OIX",
}
MIDDLE = 5


class Chain:
    """Two convolutions, the second of which takes what the first leaves in its own layout."""

    def __init__(self, engine=None, channels=32, batch=2):
        self.engine = engine or og.Engine()
        x = og.LogicalTensor(0, "f32", (batch, channels, 14, 14))
        v, w = (og.LogicalTensor(i, "f32", (channels, channels, 3, 3)) for i in (1, 2))
        middle, y = og.LogicalTensor(MIDDLE, "f32", x.shape), og.LogicalTensor(6, "f32", x.shape)
        graph = og.Graph()
        graph.add_op(og.Op(0, "Convolution", [x, v], [middle], **SAME))
        graph.add_op(og.Op(1, "Convolution", [middle, w], [y], **SAME))
        graph.output(middle)
        graph.finalize()
        self.graph = graph
        first, self.second = graph.get_partitions("debug", backend="onednn")
        free = og.LogicalTensor(MIDDLE, "f32", x.shape, layout_type="any")
        self.one = first.compile(None, [free], self.engine)
        self.lies = self.one.query_logical_tensor(MIDDLE)
        if self.lies.layout_type != "opaque":
            pytest.skip("the convolution leaves a plain layout on this machine")
        rng = np.random.default_rng(0)
        self.x, self.v, self.w = (rng.integers(-2, 3, t.shape).astype(np.float32) for t in (x, v, w))

    def compiled_second(self, lies=None):
        return self.second.compile([lies or self.lies, self.second.input_ports[1]], None, self.engine)

    def buffer(self):
        return self.one.execute(None, [self.x, self.v])[0]

    def tensor(self, buffer=None):
        return og.Tensor.from_opaque(self.lies, self.buffer() if buffer is None else buffer, self.engine)


@pytest.fixture
def chain(onednn):
    return Chain()


def described(chain, **changes):
    values = {"shape": chain.lies.shape, "layout_id": chain.lies.layout_id} | changes
    return og.LogicalTensor(
        MIDDLE, values.pop("data_type", "f32"), values.pop("shape"), layout_type="opaque", **values
    )


def test_what_a_layout_knows(chain):
    tensor = chain.tensor()
    layout = tensor.layout
    assert (layout.id, layout.backend) == (chain.lies.layout_id, "onednn")
    assert (layout.data_type, layout.shape) == ("f32", (2, 32, 14, 14))
    assert layout.nbytes == tensor.nbytes == chain.buffer().nbytes
    assert chain.engine.layouts.of(chain.lies) is layout
    assert og.Tensor(og.LogicalTensor(0, "f32", [2])).layout is None
    larger = np.zeros(layout.nbytes + 64, np.uint8)
    assert chain.tensor(larger).nbytes == layout.nbytes


def test_ids_are_of_one_engine(onednn):
    """Equal layouts of two engines have ids that are not equal, and neither engine knows the other's."""
    first, second = Chain(), Chain()
    assert first.lies.layout_id != second.lies.layout_id
    assert Chain(first.engine).lies.layout_id == first.lies.layout_id


BUFFERS = {
    "too small": lambda n: np.zeros(n - 1, np.uint8),
    "of 64 bytes": lambda n: np.zeros(64, np.uint8),
    "empty": lambda n: np.zeros(0, np.uint8),
    "of floats": lambda n: np.zeros(n // 4, np.float32),
    "of signed bytes": lambda n: np.zeros(n, np.int8),
    "of two axes": lambda n: np.zeros((2, n), np.uint8),
    "with gaps": lambda n: np.zeros(2 * n, np.uint8)[::2],
    "backwards": lambda n: np.zeros(n, np.uint8)[::-1],
    "broadcast": lambda n: np.broadcast_to(np.uint8(0), n),
    "at an odd address": lambda n: np.zeros(n + 1, np.uint8)[1:],
}


@pytest.mark.parametrize("what", BUFFERS)
def test_a_buffer_that_does_not_fit(chain, what):
    """Neither as a tensor nor as an output."""
    buffer = BUFFERS[what](chain.engine.layouts.of(chain.lies).nbytes)
    with pytest.raises(og.ArgumentError, match="is opaque and"):
        chain.tensor(buffer)
    with pytest.raises(og.ArgumentError, match="'dst', tensor 5 .* is opaque and"):
        chain.one.execute(None, [chain.x, chain.v], [buffer])
    with pytest.raises(og.ArgumentError, match="'dst', tensor 5 .* is opaque and"):
        chain.one.bind([chain.x, chain.v], [buffer])


@pytest.mark.parametrize("what", ["a string", b"bytes", None, {}, np.ma.zeros(9, np.uint8)], ids=repr)
def test_a_buffer_that_is_no_array(chain, what):
    with pytest.raises(og.ArgumentTypeError):
        og.Tensor.from_opaque(chain.lies, what, chain.engine)


def test_from_opaque_checks_its_arguments(chain):
    buffer = chain.buffer()
    make = og.Tensor.from_opaque
    with pytest.raises(og.ArgumentTypeError, match="engine must be"):
        make(chain.lies, buffer, None)
    with pytest.raises(og.ArgumentTypeError, match="needs a LogicalTensor first, got 5"):
        make(5, buffer, chain.engine)
    with pytest.raises(og.errors.LayoutError, match="must have layout_type 'opaque' here, got 'strided'"):
        make(og.LogicalTensor(MIDDLE, "f32", chain.lies.shape), buffer, chain.engine)
    with pytest.raises(og.errors.LayoutError, match="this engine has given out no such layout"):
        make(chain.lies, buffer, og.Engine())


WRONG = {
    "another shape": (
        {"shape": (4, 32, 14, 14)},
        r"a layout of f32 \[2, 32, 14, 14\], got f32 \[4, 32, 14, 14\]",
    ),
    "the same bytes in another shape": ({"shape": (2, 14, 14, 32)}, r"got f32 \[2, 14, 14, 32\]"),
    "an unknown size": ({"shape": (-1, 32, 14, 14)}, r"got f32 \[\?, 32, 14, 14\]"),
    "an unknown rank": ({"shape": None}, "got f32 unknown"),
    "another type": ({"data_type": "bf16"}, "a layout of f32 .* got bf16"),
    "no id": ({"layout_id": None}, "must have a layout_id, got none"),
    "an id of nothing": ({"layout_id": 3}, "has layout_id 3, and this engine has given out no such layout"),
    "the next id": (None, "this engine has given out no such layout"),
    "a large id": ({"layout_id": 2**64}, "this engine has given out no such layout"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_logical_tensor_that_is_no_layouts(chain, what):
    changes, says = WRONG[what]
    wrong = described(chain, **({"layout_id": chain.lies.layout_id + 1} if changes is None else changes))
    with pytest.raises(og.errors.LayoutError, match=says):
        og.Tensor.from_opaque(wrong, np.zeros(1 << 22, np.uint8), chain.engine)
    if wrong.is_concrete:
        with pytest.raises(og.OneDNNGraphError):
            chain.compiled_second(wrong)
    if wrong.shape == chain.lies.shape and wrong.data_type == "f32":
        with pytest.raises(og.errors.LayoutError, match=f"'src', tensor 5 .*{says}"):
            chain.compiled_second(wrong)


def test_another_engines_layout_at_every_door(chain):
    """The very same layout, but of another engine: its memory may lie otherwise there, and is not taken."""
    other = Chain()
    two = chain.compiled_second()
    foreign = other.tensor()
    with pytest.raises(og.errors.LayoutError, match="this engine has given out no such layout"):
        chain.compiled_second(other.lies)
    for call in (
        lambda: two.execute(None, [foreign, chain.w]),
        lambda: two.bind([foreign, chain.w], [np.empty(two.outputs[0].dims, np.float32)]),
        lambda: chain.one.execute(None, [chain.x, chain.v], [foreign]),
        lambda: chain.one.bind([chain.x, chain.v], [foreign]),
    ):
        with pytest.raises(og.ArgumentError, match="takes the Tensor in layout"):
            call()
    np.testing.assert_array_equal(foreign.numpy(), chain.tensor().numpy())


def test_tensors_that_a_partition_was_not_compiled_for(chain):
    two = chain.compiled_second()
    smaller = Chain(chain.engine, channels=16)
    for given in (
        chain.x,
        chain.buffer(),
        smaller.tensor(),
        og.Tensor(og.LogicalTensor(0, "f32", chain.x.shape)),
    ):
        with pytest.raises(og.ArgumentError, match="takes the Tensor in layout"):
            two.execute(None, [given, chain.w])
    with pytest.raises(og.ArgumentError, match="takes the Tensor in layout"):
        chain.one.execute(None, [chain.x, chain.v], [smaller.tensor()])
    flat = og.Tensor(og.LogicalTensor(0, "u8", [chain.buffer().nbytes]))
    with pytest.raises(og.ArgumentError, match="takes the Tensor in layout"):
        chain.one.execute(None, [chain.x, chain.v], [flat])


def test_opaque_tensors_for_strided_ports(chain):
    """An input is made plain; an output would be a copy that nobody sees, and is refused."""
    plain = chain.second.compile(None, None, chain.engine)
    tensor = chain.tensor()
    (got,) = plain.execute(None, [tensor, chain.w])
    (expected,) = chain.compiled_second().execute(None, [tensor, chain.w])
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(
        og.ArgumentError, match="'dst', tensor 6 .* is strided and can't be written to an opaque"
    ):
        plain.execute(None, [tensor, chain.w], [chain.tensor()])


def test_a_tensor_is_written_to_and_read(chain):
    tensor = chain.tensor(np.zeros(chain.buffer().nbytes, np.uint8))
    (returned,) = chain.one.execute(None, [chain.x, chain.v], [tensor])
    assert returned is tensor.data
    np.testing.assert_array_equal(tensor.numpy(), chain.tensor().numpy())
    read_only = chain.buffer()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(chain.tensor(read_only).numpy(), tensor.numpy())
    with pytest.raises(og.ArgumentError, match="writeable"):
        chain.one.execute(None, [chain.x, chain.v], [chain.tensor(read_only)])


def test_elements_of_an_opaque_tensor_are_a_copy(chain):
    tensor = chain.tensor()
    for array in (np.asarray(tensor), np.array(tensor, copy=True), np.array(tensor, copy=None)):
        np.testing.assert_array_equal(array, tensor.numpy())
    with pytest.raises(og.ArgumentError, match="is opaque and has no elements without a copy"):
        np.array(tensor, copy=False)


def test_a_buffer_over_an_input(chain):
    """The result is computed aside, and only the layout's bytes are written."""
    expected = chain.tensor().numpy()
    size = chain.engine.layouts.of(chain.lies).nbytes
    room = np.full(chain.x.nbytes + size, 7, np.uint8)
    x = room[: chain.x.nbytes].view(np.float32).reshape(chain.x.shape)
    x[...] = chain.x
    target = room[: size + 16]
    behind = room[size:].copy()
    chain.one.execute(None, [x, chain.v], [target])
    np.testing.assert_array_equal(chain.tensor(target).numpy(), expected)
    np.testing.assert_array_equal(room[size:], behind)


def test_a_buffer_that_shrinks_afterwards(chain):
    buffer = chain.buffer().copy()
    tensor = chain.tensor(buffer)
    buffer.resize(64, refcheck=False)
    for call in (
        tensor.numpy,
        lambda: np.asarray(tensor),
        lambda: chain.compiled_second().execute(None, [tensor, chain.w]),
        lambda: chain.one.execute(None, [chain.x, chain.v], [tensor]),
    ):
        with pytest.raises(og.ArgumentError, match="at least"):
            call()


def test_a_tensor_stays_what_it_is(chain):
    tensor = chain.tensor()
    for name in ("data", "layout", "logical_tensor", "engine"):
        with pytest.raises(AttributeError):
            setattr(tensor, name, None)


def test_a_closed_engine(chain):
    tensor = chain.tensor()
    chain.engine.close()
    with pytest.raises(og.errors.ResourceError, match="closed"):
        tensor.numpy()
    with pytest.raises(og.errors.ResourceError, match="closed"):
        og.Tensor.from_opaque(chain.lies, tensor.data, chain.engine)


def test_a_layout_outlives_what_was_compiled(chain):
    buffer, expected = chain.buffer(), chain.tensor().numpy()
    del chain.one
    gc.collect()
    np.testing.assert_array_equal(chain.tensor(buffer).numpy(), expected)


def test_engines_and_what_is_theirs_stay_in_their_process(chain):
    for thing in (chain.engine, chain.tensor(), chain.one):
        for away in (pickle.dumps, copy.deepcopy):
            with pytest.raises((og.ArgumentTypeError, TypeError, pickle.PicklingError, AttributeError)):
                away(thing)
    with pytest.raises(og.ArgumentTypeError, match="lives in one process"):
        pickle.dumps(chain.engine)
    with pytest.raises(og.ArgumentTypeError, match="lives in one process"):
        copy.copy(chain.engine)
    again = pickle.loads(pickle.dumps(chain.lies))
    assert again == chain.lies  # a description; only its own engine knows the id
    with pytest.raises(og.errors.LayoutError, match="no such layout"):
        og.Tensor.from_opaque(again, chain.buffer(), og.Engine())


def test_files_lose_layouts(chain):
    """A graph with an opaque tensor, saved and loaded, is compiled for plain arrays; its id can't be brought in."""
    graph = og.Graph()
    graph.add_op(og.Op(0, "ReLU", [chain.lies], [og.LogicalTensor(9, "f32")]))
    graph.finalize()
    again = og.Graph.from_json(graph.to_json())
    again.finalize()
    (tensor,) = again.inputs
    assert (tensor.layout_type, tensor.layout_id) == (LayoutType.opaque, None)
    expected = np.maximum(chain.tensor().numpy(), 0)
    for one in (graph, again):
        model = one.compile(engine=chain.engine)
        np.testing.assert_array_equal(model({MIDDLE: chain.tensor()})[9], expected)
        np.testing.assert_array_equal(model({MIDDLE: chain.tensor().numpy()})[9], expected)
    (partition,) = again.get_partitions()
    with pytest.raises(og.errors.LayoutError, match="must have a layout_id, got none"):
        partition.compile(engine=chain.engine)


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_a_backend_that_does_not_know_the_layout(chain, backend):
    """It takes plain arrays, and the tensor is made plain for it."""
    graph = og.Graph()
    graph.add_op(og.Op(0, "ReLU", [chain.lies], [og.LogicalTensor(9, "f32")]))
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    compiled = partition.compile(engine=chain.engine, verify=backend == "onednn")
    assert compiled.explanation.verified == (backend == "onednn")
    (got,) = compiled.execute(None, [chain.tensor()])
    np.testing.assert_array_equal(got, np.maximum(chain.tensor().numpy(), 0))


# --- the registry itself --------------------------------------------------------------------------------


def test_handles_of_equal_layouts_are_one():
    layouts = Layouts()
    tensor = og.LogicalTensor(0, "f32", [2, 3])

    def give(content, tensor=tensor, nbytes=64, backend="a"):
        return layouts.give(backend, tensor, nbytes, content, lambda other: other == content, np.copy)

    first = give("x")
    assert give("x") is first
    others = [og.LogicalTensor(0, "f32", [3, 2]), og.LogicalTensor(0, "s32", [2, 3])]
    different = [give("y"), give("x", nbytes=128), give("x", backend="b"), *[give("x", t) for t in others]]
    assert len({one.id for one in (first, *different)}) == 6
    opaque = og.LogicalTensor(7, "f32", [2, 3], layout_type="opaque", layout_id=first.id)
    assert layouts.of(opaque) is first
    layouts.clear()
    with pytest.raises(og.errors.LayoutError):
        layouts.of(opaque)


def test_eight_threads_get_one_handle():
    layouts, found = Layouts(), []
    tensor = og.LogicalTensor(0, "f32", [2, 3])
    ready = threading.Barrier(8)

    def work():
        ready.wait(30)
        found.append(layouts.give("a", tensor, 24, "x", lambda other: other == "x", np.copy))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_layouts_whose_axes_are_not_the_tensors_are_not_the_same(onednn):
    """A weight gradient's layout may have other axes than its tensor, and then no primitive takes it as it lies."""
    lib = load()
    blocked = [MemoryDesc.strided(lib, (4, 4), DataType.f32, strides) for strides in ((4, 1), (1, 4))]
    first = OpaqueLayout(blocked[0], blocked[1], own_axes=True)
    again = [MemoryDesc.strided(lib, (4, 4), DataType.f32, strides) for strides in ((4, 1), (1, 4))]
    assert first.same(OpaqueLayout(again[0], again[1], own_axes=True))
    for other in (
        OpaqueLayout(again[0], again[1]),
        OpaqueLayout(again[1], again[1], own_axes=True),
        OpaqueLayout(again[0], again[0], own_axes=True),
        "another backend's",
    ):
        assert not first.same(other)
