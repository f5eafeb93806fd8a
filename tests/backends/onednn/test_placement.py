"""Where temporaries lie in an arena: whatever lives come and go, none is written over before its end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.backends.onednn.plan.arena import ALIGNMENT, aligned
from onednn_graph.backends.onednn.plan.placement import Life, place

STEPS = 8
SIZES = st.sampled_from([0, 1, 63, 64, 65, 200, 640])


@st.composite
def lives(draw):
    """Lives in the order in which they begin; some may inherit from those that end where they begin."""
    spans = draw(
        st.lists(
            st.tuples(st.integers(-1, STEPS - 1), st.integers(0, STEPS), SIZES, st.booleans()), max_size=14
        )
    )
    found = []
    for first, length, nbytes, inherits in sorted(spans, key=lambda span: span[0]):
        ending = tuple(n for n, life in enumerate(found) if life.last == first and first >= 0)
        last = max(first, min(first + length, STEPS))
        found.append(Life(nbytes=nbytes, first=first, last=last, heir_of=ending if inherits else ()))
    return found


def inherits(one, other, number):
    """Whether the second may have the memory of the first."""
    return number in other.heir_of and one.last == other.first


@given(lives())
def test_no_two_live_at_once_share_a_byte_but_an_heir_with_whom_it_inherits_from(found):
    placement = place(found)
    heirs = {}
    for later, other in enumerate(found):
        for earlier, one in enumerate(found[:later]):
            apart = one.last < other.first or other.last < one.first
            begin = max(placement.offsets[earlier], placement.offsets[later])
            end = min(placement.offsets[earlier] + one.nbytes, placement.offsets[later] + other.nbytes)
            if apart or begin >= end:
                continue
            assert inherits(one, other, earlier)
            assert placement.offsets[earlier] == placement.offsets[later]
            assert earlier not in heirs  # one has the memory, not two
            heirs[earlier] = later


@given(lives())
def test_the_arena_holds_all_and_begins_at_cache_lines(found):
    placement = place(found)
    assert all(offset % ALIGNMENT == 0 for offset in placement.offsets)
    ends = [offset + aligned(life.nbytes) for offset, life in zip(placement.offsets, found, strict=True)]
    assert placement.nbytes == max(ends, default=0)


@given(lives())
def test_the_arena_has_the_peak_of_what_lives_and_no_more_than_all_together(found):
    without_heirs = [Life(nbytes=one.nbytes, first=one.first, last=one.last) for one in found]
    placement = place(without_heirs)
    sizes = [(one, aligned(one.nbytes)) for one in found]
    peak = max(sum(size for one, size in sizes if one.first <= n <= one.last) for n in range(-1, STEPS + 1))
    assert peak <= placement.nbytes <= sum(size for _, size in sizes)
    # Who inherits asks for nothing: the peak counts those that end in a step once with those that begin there.
    inside = [sum(size for one, size in sizes if one.first < n <= one.last) for n in range(STEPS + 1)]
    assert max(inside) <= place(found).nbytes


@given(st.lists(SIZES, max_size=8))
def test_lives_one_after_another_need_the_largest_alone(sizes):
    found = [Life(nbytes=size, first=number, last=number) for number, size in enumerate(sizes)]
    assert place(found).nbytes == max(map(aligned, sizes), default=0)


def test_an_heir_takes_the_place_of_one_life_and_the_next_asks_for_its_own():
    found = [
        Life(nbytes=64, first=0, last=1),
        Life(nbytes=64, first=1, last=2, heir_of=(0,)),
        Life(nbytes=64, first=1, last=2, heir_of=(0,)),
    ]
    assert place(found).offsets == (0, 0, 64)
    larger = [found[0], Life(nbytes=65, first=1, last=2, heir_of=(0,))]
    assert place(larger).offsets == (0, 64)


@given(lives())
def test_dead_bytes_are_those_that_nothing_holds_across_the_beginning_of_a_step(found):
    placement = place(found)
    for number, dead in enumerate(placement.dead(STEPS)):
        held = {
            byte
            for one, offset in zip(found, placement.offsets, strict=True)
            if one.first < number <= one.last
            for byte in range(offset, offset + one.nbytes)
        }
        assert {byte for a, b in dead for byte in range(a, b)} == set(range(placement.nbytes)) - held
        assert all(a < b for a, b in dead)
        assert all(first[1] <= second[0] for first, second in pairwise(dead))
