"""Steps on the host that seldom have anything to do: looked for in machine code, within a batch of primitives."""

import numpy as np
import onednn_graph as og
import pytest
from batches import way  # noqa: F401 -- a fixture
from onednn_graph.backends.onednn.library import batch
from onednn_graph.backends.onednn.library.batch import Above, Look
from onednn_graph.backends.onednn.plan.frame import Frame

if og.list_backends()["onednn"] is not None:
    pytest.skip("the oneDNN library is not here", allow_module_level=True)


LOWEST = np.finfo(np.float32).min
ORDINARY = np.random.default_rng(0).standard_normal((4, 40)).astype(np.float32)


def with_row(value, number=2, columns=slice(None)):
    changed = ORDINARY.copy()
    changed[number, columns] = value
    return changed


CASES = {
    "ordinary": ORDINARY,
    "a NaN": with_row(np.nan, columns=7),
    "NaN in the last row": with_row(np.nan, 3, 39),
    "all NaN": with_row(np.nan),
    "∞": with_row(np.inf, columns=0),
    "a −∞": with_row(-np.inf, columns=3),
    "−∞ alone": with_row(-np.inf),
    "−∞ alone in all rows": np.full_like(ORDINARY, -np.inf),
    "the lowest number": with_row(LOWEST),
    "∞ and −∞": np.where(ORDINARY > 0, np.float32(np.inf), np.float32(-np.inf)),
}


def rows(graph, x):
    largest = graph.op("ReduceMax", x, axes=[-1], keep_dims=True)
    return graph.op("Multiply", largest, graph.constant(np.float32(2)))


def shares(graph, x):
    return graph.op("Square", graph.op("SoftMax", x, axis=-1))


def columns_of_shares(graph, x):
    return graph.op("Square", graph.op("SoftMax", x, axis=0))


def logarithms(graph, x):
    return graph.op("Abs", graph.op("LogSoftmax", x, axis=-1))


def windows(graph, x):
    image = graph.op("StaticReshape", x, shape=[1, 4, 5, 8], special_zero=False)
    window = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    return graph.op("Abs", graph.op("MaxPool", image, data_format="NCX", **window))


FORGOTTEN = (windows,)
"""Kernels that pass over a NaN beside other elements, which the page of special values says."""


def several(graph, x):
    """One look after another, of which the second may find what the first does not."""
    largest = graph.op("ReduceMax", x, axes=[-1], keep_dims=True)
    scaled = graph.op("Divide", x, graph.op("Add", largest, graph.constant(np.float32(1))))
    return graph.op("Multiply", graph.op("SoftMax", scaled, axis=-1), largest)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("build", [rows, shares, columns_of_shares, logarithms, windows, several])
def test_infinities_and_nan_are_seen_to(build):
    graph = og.Graph()
    build(graph, graph.input("x", "f32", ORDINARY.shape))
    model, oracle = graph.compile(), graph.compile(backend="numpy")
    for name, x in CASES.items():
        if build in FORGOTTEN and np.isnan(x).any():
            continue
        for _ in range(2):  # the next call is none the worse for it
            got, expected = model(x=x).only, oracle(x=x).only
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("build", [rows, shares, several])
def test_a_model_is_one_call_where_there_is_nothing_to_see_to(build, monkeypatch):
    if batch._start() is None:
        pytest.skip("this system gives no executable memory")
    graph = og.Graph()
    build(graph, graph.input("x", "f32", ORDINARY.shape))
    model = graph.compile()
    model(x=ORDINARY)
    frames = []
    plain = Frame.run
    monkeypatch.setattr(Frame, "run", lambda frame: (frames.append(frame), plain(frame))[1])
    model(x=ORDINARY)
    assert [len(frame._runs) for frame in frames] == [1]


def looked(array, conditions, calls):
    """What a batch returns that looks at an array, and the numbers of what it had done."""

    def does(number):
        def otherwise():
            done.append(number)
            calls(number)

        return otherwise

    done = []
    start = array.ctypes.data
    looks = [
        Look(
            tuple(Above(start + 4 * first, count, 4 * step, bound) for first, count, step, bound in group),
            does(n),
        )
        for n, group in enumerate(conditions)
    ]
    made = batch.batch(0, looks, 1)
    if made is None:
        pytest.skip("this system gives no executable memory")
    return [made(), made()], done


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([[(0, 5, 1, -1.0)]], []),
        ([[(0, 5, 1, 0.0)]], [0]),  # not larger
        ([[(1, 4, 1, 0.0)]], []),
        ([[(1, 4, 1, 3.0)], [(4, 1, 1, 3.0)]], [0]),
        ([[(0, 3, 2, -0.5)], [(4, 1, 1, 4.0)]], [1]),
        ([[(0, 1, 1, 0.0), (0, 5, 1, -1.0)]], [0]),  # either of two, but the step is done once
        ([[(0, 5, 1, -1.0), (0, 1, 1, 0.0)]], [0]),
        ([[(0, 1, 1, 0.0), (0, 1, 1, 0.0)], [(0, 5, 1, -1.0)], [(0, 1, 1, 9.0)]], [0, 2]),
        ([[(5, 1, 1, -np.inf)]], [0]),  # NaN
        ([[(6, 1, 1, -np.inf)]], [0]),
        ([[(7, 1, 1, 3e38)]], []),
        ([[(8, 1, 1, 0.0)]], []),  # subnormal
    ],
)
def test_what_a_look_finds(conditions, expected):
    array = np.array([0, 1, 2, 3, 4, np.nan, -np.inf, np.inf, 1e-40], np.float32)
    statuses, done = looked(array, conditions, lambda number: None)
    assert statuses == [0, 0]
    assert done == expected * 2


def test_an_error_of_what_is_seen_to_reaches_the_caller():
    """As Ctrl-C does, and nothing behind it runs."""

    def fails(number):
        raise KeyboardInterrupt(number)

    with pytest.raises(KeyboardInterrupt, match="1"):
        looked(np.zeros(4, np.float32), [[(0, 4, 1, -1.0)], [(0, 4, 1, 0.0)], [(0, 4, 1, 0.0)]], fails)
