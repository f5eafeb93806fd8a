"""Other shapes of the same memory, by strides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.backends.onednn.lowering.views import in_order, order_of, reshaped_strides


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
