"""Memory that steps use again, and weights that are kept in the library's layouts."""

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from onednn_graph.graph.torch_compile.run.pool import LEAST, Pool  # noqa: E402 -- they need torch
from onednn_graph.graph.torch_compile.run.weights import KEPT, Weights  # noqa: E402
from onednn_graph.graph.torch_compile.tensors import KnownMemory  # noqa: E402

BYTES = 16 * LEAST


def tensor(pool: Pool) -> torch.Tensor:
    return pool.tensor((LEAST // 4, 16), (1, LEAST // 4), torch.float32, BYTES)


def test_a_tensor_lies_as_asked_and_at_a_cache_line():
    made = tensor(Pool())
    assert (made.shape, made.stride(), made.dtype) == ((LEAST // 4, 16), (1, LEAST // 4), torch.float32)
    assert made.data_ptr() % 64 == 0


def test_memory_is_used_again_once_all_views_of_it_are_gone():
    pool = Pool()
    first = tensor(pool)
    place, part = first.data_ptr(), first[0]
    del first
    assert tensor(pool).data_ptr() != place
    del part
    assert pool.free_bytes == BYTES * 2
    again = [tensor(pool), tensor(pool)]
    assert place in [one.data_ptr() for one in again]


def test_what_is_free_is_never_more_than_what_was_in_use():
    pool = Pool()
    for size in range(1, 8):
        nbytes = size * LEAST
        made = pool.tensor((nbytes // 4,), (1,), torch.float32, nbytes)
        del made
        assert pool.free_bytes <= nbytes
    pool.empty()
    assert pool.free_bytes == 0


def test_small_tensors_are_torchs_own():
    pool = Pool()
    made = pool.tensor((8,), (1,), torch.float32, 32)
    del made
    assert pool.free_bytes == 0


def made_of(weights: Weights, tensors: list[torch.Tensor]) -> tuple[object, ...]:
    return weights.of(tensors, lambda: (object(),))


def test_weights_are_made_once_and_again_when_they_change():
    weights, given = Weights(), [torch.zeros(3), torch.ones(3)]
    first = made_of(weights, given)
    assert made_of(weights, given) is first
    given[1].add_(1)
    second = made_of(weights, given)
    assert second is not first
    assert made_of(weights, given) is second


def test_other_memory_under_the_same_tensor_is_another_weight():
    weights, given = Weights(), [torch.nn.Parameter(torch.zeros(3))]
    first = made_of(weights, given)
    given[0].data = torch.ones(3)
    assert made_of(weights, given) is not first


def test_another_tensor_over_the_same_memory_is_the_same_weight():
    weights, memory = Weights(), torch.zeros(3)
    first = made_of(weights, [memory.view(3)])
    assert made_of(weights, [memory.view(3)]) is first
    memory.add_(1)
    assert made_of(weights, [memory.view(3)]) is not first


def test_memory_that_comes_back_is_another_weight():
    weights, place = Weights(), np.zeros(3, np.float32)
    given = torch.from_numpy(place)
    first = made_of(weights, [given])
    assert made_of(weights, [given]) is first
    del given
    assert made_of(weights, [torch.from_numpy(place)]) is not first


def test_weights_do_not_keep_the_memory_that_they_were_made_of():
    weights, given = Weights(), [torch.zeros(3)]
    made_of(weights, given)
    held = KnownMemory(given[0])
    given.clear()
    assert held.is_gone()


def test_weights_go_with_their_tensors():
    weights = Weights()
    given = [torch.zeros(3)]
    made_of(weights, given)
    assert len(weights) == 1
    given.clear()
    gc.collect()
    assert not weights


def test_sets_of_weights_are_bounded():
    weights = Weights()
    given = [[torch.zeros(3)] for _ in range(KEPT + 5)]
    for one in given:
        made_of(weights, one)
    assert len(weights) == KEPT


def test_tensors_of_inference_mode_have_no_versions_and_are_made_anew():
    weights = Weights()
    with torch.inference_mode():
        given = [torch.zeros(3)]
    assert made_of(weights, given) is not made_of(weights, given)
