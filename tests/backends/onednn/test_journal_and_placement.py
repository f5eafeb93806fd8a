"""Collections that go back, and the bytes of an arena, against plain models."""

import random

import pytest
from onednn_graph.backends.onednn.plan.journal import Journal, JournalledDict, JournalledList, JournalledSet
from onednn_graph.backends.onednn.plan.placement import FreeBytes


@pytest.mark.parametrize("seed", range(20))
def test_going_back_restores_what_was(seed):
    rng = random.Random(seed)
    journal = Journal()
    mapping, items, row = JournalledDict(journal), JournalledSet(journal), JournalledList(journal)
    kept = []
    for _ in range(200):
        key = rng.randrange(8)
        action = rng.randrange(10)
        if action == 0:
            kept.append((journal.mark(), dict(mapping), set(items), list(row)))
        elif action == 1 and kept:
            mark, mapped, held, listed = kept.pop(rng.randrange(len(kept)))
            kept = [one for one in kept if one[0] <= mark]
            journal.go_back(mark)
            assert dict(mapping) == mapped
            assert set(items) == held
            assert list(row) == listed
        elif action == 2:
            mapping.pop(key, None)
        elif action == 3:
            items.discard(key)
        elif action == 4:
            items.update([key, key + 1])
        elif action == 5:
            row.extend([key, key + 1])
        elif action == 6 and row:
            row[rng.randrange(len(row))] = key
        elif action == 7:
            row.assign(row[::2])
        else:
            mapping[key] = rng.random()


@pytest.mark.parametrize("seed", range(20))
def test_the_first_free_bytes_are_given(seed):
    rng = random.Random(seed)
    free, taken = FreeBytes(), []
    top = 0
    for _ in range(300):
        if taken and rng.random() < 0.45:
            free.give(*taken.pop(rng.randrange(len(taken))))
            continue
        size = rng.choice((0, 1, 2, 3, 5, 8))
        used = {byte for start, length in taken for byte in range(start, start + length)}
        first = next(s for s in range(10_000) if not used.intersection(range(s, s + max(size, 1))))
        start = free.take(size)
        assert start == first or not size
        taken.append((start, size))
        top = max(top, start + size)
        assert free.total == top
