"""Which plans are tried one after another, by what came of those before, without a library."""

from itertools import islice

import pytest
from attrs import evolve
from onednn_graph.backends.onednn.attempts import Attempts, Outcome


def outcome(*, trusted=True, fuses=False, unproven=(), choices=None):
    return Outcome(trusted=trusted, fuses=fuses, unproven=frozenset(unproven), choices=choices or {})


def tried(outcomes, *, every=False, most=20):
    """Each attempt as (choice, ops that choose, proven only, fuses), where the n-th has the n-th outcome."""
    attempts, found = Attempts(every=every), []
    for attempt, one in zip(islice(attempts, most), outcomes, strict=False):
        limits = attempt.limits
        found.append((limits.choice, limits.choosing, limits.proven_only, limits.fuses))
        assert attempt.why
        if one is not None:
            attempts.made(one)
        elif not attempts.impossible():
            break
    return found


NOBODY = frozenset()
FIRST = (0, NOBODY, False, True)
PROVEN = (0, NOBODY, True, True)
ALONE = (0, NOBODY, False, False)


@pytest.mark.parametrize(
    ("outcomes", "want"),
    {
        "what nobody doubts is tried once": ([outcome()] * 9, [FIRST]),
        "nor are candidates of ops that nobody doubts": ([outcome(choices={1: 5})] * 9, [FIRST]),
        "what takes others along is tried without": (
            [outcome(fuses=True), outcome(fuses=True), outcome()],
            [FIRST, PROVEN, ALONE],
        ),
        "what is unproven is tried proven, which ends it where nothing is fused": (
            [outcome(trusted=False, unproven={1}), outcome()],
            [FIRST, PROVEN],
        ),
        "the candidates of an op in doubt come first": (
            [*[outcome(trusted=False, unproven={1}, choices={1: 3, 2: 9})] * 3, outcome()],
            [FIRST, (1, frozenset({1}), False, True), (2, frozenset({1}), False, True), PROVEN],
        ),
        "a candidate may bring another op into doubt": (
            [
                outcome(trusted=False, unproven={1}, choices={1: 2, 2: 3}),
                outcome(trusted=False, unproven={2}, choices={1: 2, 2: 3}),
                outcome(choices={1: 2, 2: 3}),
                outcome(),
            ],
            [FIRST, (1, frozenset({1}), False, True), (2, frozenset({1, 2}), False, True), PROVEN],
        ),
        "what can't be made of proven ones alone is made of others": (
            [outcome(trusted=False), None, outcome()],
            [FIRST, PROVEN, ALONE],
        ),
        "what can't be made at all ends it": ([None], [FIRST]),
    }.values(),
)
def test_what_is_tried_next(outcomes, want):
    assert tried(outcomes) == want


def test_every_op_is_in_doubt_where_all_is_verified():
    outcomes = [*[outcome(choices={1: 2})] * 9]
    assert tried(outcomes, every=True) == [(0, None, False, True), (1, None, False, True)]


def test_nothing_comes_after_an_attempt_that_was_told_nothing_of():
    attempts = Attempts(every=False)
    assert next(attempts).why == "the first choice"
    assert list(attempts) == []


def test_what_was_found_wrong_stays_out_and_all_else_stays():
    attempts, found = Attempts(every=False), []
    first, second = (1, "jit:a"), (1, "jit:b")
    wrong = iter([{first}, {first, second}, {second}, set()])
    for attempt in islice(attempts, 9):
        limits = attempt.limits
        found.append((limits.barred, limits.fuses, limits.proven_only, limits.choice))
        made = outcome(trusted=False, fuses=True, unproven={1}, choices={1: 2})
        attempts.made(evolve(made, wrong=frozenset(next(wrong, ()))))
    assert found[:4] == [
        (frozenset(), True, False, 0),
        (frozenset({first}), True, False, 0),
        (frozenset({first, second}), True, False, 0),
        (frozenset({first, second}), True, False, 1),
    ]
    assert all(barred == {first, second} for barred, *_ in found[4:])


def test_the_reason_of_each_attempt():
    attempts, whys = Attempts(every=False), []
    for attempt in attempts:
        whys.append(attempt.why)
        if attempt.limits.proven_only:
            assert attempts.impossible()
        else:
            attempts.made(outcome(trusted=False, unproven={1}, choices={1: 2}))
    assert whys == [
        "the first choice",
        "candidate 2 of what is in doubt",
        "proven implementations alone, for something unproven runs",
        "primitives that take nothing along, for it needs one that is not proven",
        "candidate 2 of what is in doubt",
    ]
