"""Other shapes of the same memory, by strides."""

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.backends.onednn.lowering.views import in_order, order_for, order_of, reshaped_strides


@st.composite
def arrays(draw):
    """An array whose axes lie in any order, perhaps with gaps between them, and another shape for its elements."""
    shape = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 6]), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(shape))))
    gaps = draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=len(shape), max_size=len(shape)))
    whole = np.empty([shape[axis] + gap for axis, gap in zip(order, gaps, strict=True)], np.int8)
    part = whole[tuple(slice(0, shape[axis]) for axis in order)].transpose(np.argsort(order))
    wanted, left = [], part.size
    while left > 1:
        wanted.append(draw(st.sampled_from([d for d in range(2, left + 1) if left % d == 0])))
        left //= wanted[-1]
    for place in draw(st.lists(st.integers(0, len(wanted)), max_size=2)):
        wanted.insert(place, 1)
    return part, wanted or [1]


@given(arrays())
def test_a_reshape_is_a_view_where_numpy_has_one(case):
    array, wanted = case
    made = reshaped_strides(array.shape, array.strides, wanted)
    theirs = array.reshape(wanted)
    if made is None:
        assert not np.shares_memory(array, theirs)
    else:
        assert np.shares_memory(array, theirs)
        assert [s for s, d in zip(made, wanted, strict=True) if d > 1] == [
            s for s, d in zip(theirs.strides, wanted, strict=True) if d > 1
        ]


@given(st.permutations(range(4)), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_strides_of_an_order_have_that_order(order, shape):
    strides = in_order(shape, order)
    assert sorted(strides[axis] * shape[axis] for axis in order)[-1] == np.prod(shape)
    kept = [axis for axis in order if shape[axis] > 1]
    assert [axis for axis in order_of(shape, strides) if shape[axis] > 1] == kept


@given(arrays())
def test_a_copy_in_the_order_for_a_shape_can_be_seen_in_it(case):
    array, wanted = case
    order = order_for(array.shape, array.strides, wanted)
    assert sorted(order) == list(range(array.ndim))
    assert reshaped_strides(array.shape, in_order(array.shape, order), wanted) is not None


@pytest.mark.parametrize(
    ("shape", "lies", "wanted", "order"),
    [
        (
            (1, 29, 2, 7, 7),
            (0, 3, 4, 2, 1),
            (1, 58, 7, 7),
            (0, 3, 4, 1, 2),
        ),  # channels shuffled, channels last
        ((2, 3, 4, 5), (0, 2, 3, 1), (2, 60), (0, 1, 2, 3)),
        ((2, 3, 4, 5), (3, 2, 1, 0), (6, 4, 5), (3, 2, 0, 1)),
    ],
)
def test_axes_that_become_one_come_together_where_the_innermost_lies(shape, lies, wanted, order):
    assert order_for(shape, in_order(shape, lies), wanted) == order


@pytest.mark.parametrize("channels", [6, 58, 64])
def test_shuffled_channels_stay_channels_last(onednn, channels):
    """Parts of the channels, convolutions, a concatenation and a shuffle: no copy goes to another order of axes."""
    rng = np.random.default_rng(channels)
    graph = og.Graph()
    x = graph.input("x", "f32", [1, channels, 9, 7])
    weights = [
        graph.constant(rng.integers(-1, 2, (c, c, 1, 1)).astype(np.float32))
        for c in (channels, channels // 2)
    ]
    window = {
        "strides": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        "data_format": "NCX",
    }
    layer = {**window, "weights_format": "OIX"}

    def part(tensor, begin, end):
        turned = graph.op("StaticTranspose", tensor, order=[0, 2, 3, 1])
        pads = {"pads_begin": [0, -begin], "pads_end": [0, end - channels]}
        taken = graph.op("MaxPool", turned, kernel=[1, 1], strides=[1, 1], data_format="NCX", **pads)
        return graph.op("StaticTranspose", taken, order=[0, 3, 1, 2])

    y = graph.op("ReLU", graph.op("Convolution", x, weights[0], **layer))
    halves = part(y, 0, channels // 2), part(y, channels // 2, channels)
    y = graph.op("Concat", halves[0], graph.op("Convolution", halves[1], weights[1], **layer), axis=1)
    y = graph.op("StaticReshape", y, shape=[1, 2, channels // 2, 9, 7], special_zero=False)
    y = graph.op("StaticTranspose", y, order=[0, 2, 1, 3, 4])
    y = graph.op("StaticReshape", y, shape=[1, channels, 9, 7], special_zero=False)
    graph.output(graph.op("Convolution", y, weights[0], name="y", **layer))
    feeds = {"x": rng.integers(-2, 3, (1, channels, 9, 7)).astype(np.float32)}
    model = graph.compile()
    assert np.array_equal(model(feeds)["y"], graph.compile(backend="numpy")(feeds)["y"])
    copies = [
        step for one in model.explain().values() for step in one.steps if step.change and not step.prepared
    ]
    assert len(copies) <= 4  # the input, the part, the shuffle, the result


def test_an_axis_of_one_element_comes_behind_those_of_the_same_stride():
    assert order_of((2, 1, 4, 3), (12, 1, 3, 1)) == (0, 2, 3, 1)
    assert order_of((1, 5, 2), (10, 2, 2)) == (0, 1, 2)
