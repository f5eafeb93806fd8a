"""Words of memory that are looked at again: each of them counts, in one call or one by one."""

import numpy as np
import pytest
from onednn_graph.graph.runtime import words
from onednn_graph.graph.runtime.arrays import address


@pytest.fixture(params=["in one call", "one by one"], autouse=True)
def way(request, monkeypatch):
    """Both ways; the second as on a machine that gives no executable memory."""
    if request.param == "one by one":
        monkeypatch.setattr(words, "_same", lambda: None)
    elif words._same() is None:
        pytest.skip("this system gives no executable memory")


def looked_at():
    """Arrays of words with gaps and without, of single bytes, and of nothing."""
    numbers = np.arange(40, dtype=np.uint32)
    return [numbers[::7], numbers[3:5].copy(), np.arange(5, dtype=np.uint8), np.empty(0, np.uint32)]


def test_every_word_is_seen_to_change_and_to_be_again_what_it_was():
    arrays = looked_at()
    same = words.Words(arrays)
    assert same.are()
    for array in arrays:
        for place in range(len(array)):
            array[place] ^= 1
            assert not same.are()
            array[place] ^= 1
            assert same.are()


def test_what_lies_between_is_not_looked_at():
    numbers = np.arange(40, dtype=np.uint32)
    same = words.Words([numbers[::7]])
    numbers[1:7] = 0
    assert same.are()


@pytest.mark.parametrize("arrays", [[], [np.empty(0, np.uint32)], [np.empty(0, np.uint8)]])
def test_nothing_is_as_it_was(arrays):
    assert words.Words(arrays).are()


def test_words_need_not_be_aligned():
    memory = np.zeros(17, np.uint8)
    array = memory[1:17].view(np.uint32)
    assert address(array) % 4
    same = words.Words([array])
    memory[16] = 1
    assert not same.are()
