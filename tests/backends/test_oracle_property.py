"""Random attributes, shapes, layouts and data types against the oracles: equal to the last bit on both backends."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import DTYPES
from strategies import BACKENDS, GUARD, SETTINGS, WAYS, by_partition, check, eagerly, memories, problems

pytestmark = pytest.mark.no_cover  # many times what other tests cover


@given(problem=problems())
@settings(SETTINGS, max_examples=150)
def test_the_oracles_agree(problem):
    np.testing.assert_array_equal(problem.exact(fast=True), problem.exact())


@pytest.mark.parametrize("backend", BACKENDS)
@given(problem=problems(), way=st.sampled_from(list(WAYS)))
@settings(SETTINGS, max_examples=200)
def test_small_problems_against_brute_force(backend, problem, way):
    check(problem, WAYS[way](problem, backend))


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", BACKENDS)
@given(problem=problems())
@settings(SETTINGS, max_examples=150)
def test_small_problems_in_each_way(backend, way, problem):
    check(problem, WAYS[way](problem, backend))


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@given(problem=problems(largest=40, channels=20, taps=7))
@settings(SETTINGS, max_examples=250)
def test_larger_problems_against_the_second_oracle(backend, problem):
    assume(np.prod(problem.size) * np.prod(problem.out) < 4_000_000)
    check(problem, eagerly(problem, backend), fast=True)


@pytest.mark.long
@given(problem=problems(ranks=(1, 2, 3, 4), dtypes=("f64",)))
@settings(SETTINGS, max_examples=150)
def test_f64_of_any_rank(problem):
    check(problem, eagerly(problem, None))


def _untouched(block, view):
    """The memory around the view is as it was."""
    around = block.copy()
    position = view.__array_interface__["data"][0] - block.__array_interface__["data"][0]
    inside = np.ndarray(view.shape, view.dtype, around, position, view.strides)
    inside[...] = GUARD
    return bool((around == np.array(GUARD, block.dtype)).all())


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@given(problem=problems(largest=9, channels=6), data=st.data())
@settings(SETTINGS, max_examples=250)
def test_any_memory_of_inputs_and_output(backend, problem, data):
    rank = problem.rank + 2
    inputs = [data.draw(memories(rank)).place(array) for array in problem.arrays()]
    out, block = data.draw(memories(rank)).place(np.zeros(problem.weights_shape, DTYPES[problem.dtype]))
    before = [memory.copy() for _, memory in inputs]
    result = eagerly(problem, backend, [view for view, _ in inputs], out=out)
    assert result is out
    check(problem, out, fast=True)
    assert _untouched(block, out)
    for (_, memory), copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(memory, copy)


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@given(problem=problems(largest=9, channels=6), data=st.data())
@settings(SETTINGS, max_examples=250)
def test_compiled_for_the_users_strides(backend, problem, data):
    """Strides in the logical tensors: the compiled partition takes the arrays as they lie."""
    rank = problem.rank + 2
    inputs = [data.draw(memories(rank, forward=True)).place(array)[0] for array in problem.arrays()]
    empty = np.zeros(problem.weights_shape, DTYPES[problem.dtype])
    out, block = data.draw(memories(rank, forward=True)).place(empty)
    check(problem, by_partition(problem, backend, inputs, out), fast=True)
    assert _untouched(block, out)
