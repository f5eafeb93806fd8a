"""Trials and choices, on times that the test makes up: no clock, no kernel."""

import threading

import pytest
from onednn_graph.graph.compile.trials import (
    BUDGET_RUNS,
    LEAST_ROUNDS,
    MOST_BEGUN,
    MOST_ROUNDS,
    ROUNDS,
    Choices,
    Trial,
)


def play(trial, seconds, most=1000):
    """Executions of `seconds(name, how many times before)` until the trial is over; the names in order."""
    order, counts = [], dict.fromkeys(trial.names, 0)
    while not trial.settled and len(order) < most:
        turn = trial.begin()
        name = trial.names[turn.way]
        trial.end(turn, seconds(name, counts[name]))
        counts[name] += 1
        order.append(name)
    return order


def test_the_fastest_stays():
    told = []
    trial = Trial(["a", "b", "c"], 1.0, told.append)
    order = play(trial, lambda name, count: {"a": 1.02e-3, "b": 1.0e-3, "c": 1.05e-3}[name])
    assert trial.taken == "b"
    assert len(order) == 3 * (1 + MOST_ROUNDS)  # the first one is left for another only after more
    assert order[:6] == ["a", "b", "c"] * 2  # interleaved
    (times,) = told
    assert times == pytest.approx({"a": 1.02e-3, "b": 1.0e-3, "c": 1.05e-3})


def test_the_first_stays_where_it_is_as_fast():
    trial = Trial(["a", "b", "c"], 1.0)
    order = play(trial, lambda name, count: {"a": 1.0e-3, "b": 1.0e-3, "c": 1.05e-3}[name])
    assert trial.taken == "a"
    assert len(order) == 3 * (1 + ROUNDS)


def test_what_is_clearly_slower_is_dropped_early_and_the_first_one_later():
    trial = Trial(["a", "b", "c", "d"], 1.0)
    order = play(trial, lambda name, count: {"a": 2e-3, "b": 1e-3, "c": 1.1e-3, "d": 2e-3}[name])
    assert trial.taken == "b"
    assert order.count("a") == order.count("b") == order.count("c") == 1 + ROUNDS
    assert order.count("d") == 1 + LEAST_ROUNDS
    assert [one.dropped for one in trial.told([3]).tried] == [
        f"dropped after {ROUNDS} executions",
        "",
        "",
        f"dropped after {LEAST_ROUNDS} executions",
    ]


def test_the_first_is_left_after_more_times_whoever_else_went_out():
    trial = Trial(["a", "b", "c"], 1.0)
    order = play(trial, lambda name, count: {"a": 1.02e-3, "b": 1.0e-3, "c": 2e-3}[name])
    assert trial.taken == "b"
    assert (order.count("a"), order.count("c")) == (1 + MOST_ROUNDS, 1 + LEAST_ROUNDS)


def test_one_goes_out_behind_another_that_has():
    """The second one at its first times, the third, whose times differ at first, some executions later."""
    slow = [8, 5, 4, 3, 2.2, 2.2]
    trial = Trial(["a", "b", "c", "d"], 1.0)
    order = play(
        trial, lambda name, count: {"a": 1.02, "b": 2, "c": slow[min(count, 5)], "d": 1.0}[name] * 1e-3
    )
    assert trial.taken == "d"
    assert order.count("b") == 1 + LEAST_ROUNDS
    assert order.count("c") == len(slow)


def test_one_short_time_does_not_drive_out_the_first():
    """Times that differ from each other as much as ways do say nothing; and nobody is told that they do."""
    told = []
    trial = Trial(["a", "b"], 100.0, told.append)
    times = {
        "a": [20, 13, 30, 16, 28, 40, 25, 31, 22, 37, 24],
        "b": [22, 10, 31, 14, 33, 29, 24, 41, 23, 38, 27],
    }
    play(trial, lambda name, count: times[name][count] * 1e-3)
    assert trial.taken == "a"
    assert told == [{"a": pytest.approx(14.5e-3)}]


def test_one_that_remains_alone_wins_at_once():
    trial = Trial(["a", "b"], 1.0)
    order = play(trial, lambda name, count: {"a": 1e-3, "b": 2e-3}[name])
    assert trial.taken == "a"
    assert len(order) == 2 * (1 + LEAST_ROUNDS)


def test_the_first_execution_of_each_is_not_timed():
    trial = Trial(["a", "b"], 10.0)
    for name, seconds in (("a", 0.04), ("b", 0.02), ("a", 0.001), ("b", 0.002)):
        turn = trial.begin()
        assert trial.names[turn.way] == name
        trial.end(turn, seconds)
    assert [one.seconds for one in trial.told([1]).tried] == [(0.001,), (0.002,)]


@pytest.mark.parametrize("burst", [(0,), (2, 3), (1, 4)])
def test_a_busy_machine_does_not_decide(burst):
    """Slow phases hit whatever runs then; the faster way is still found."""
    calls = iter(range(10_000))

    def seconds(name, count):
        call = next(calls)
        return {"a": 1.3e-3, "b": 1.0e-3}[name] * (9 + call % 5 if call % 7 in burst else 1)

    trial = Trial(["a", "b"], 100.0)
    order = play(trial, seconds)
    assert trial.taken == "b"
    assert len(order) <= 2 * (1 + MOST_ROUNDS)


def test_the_time_that_is_lost_is_bounded():
    trial = Trial(["a", "b", "c", "d"], 0.05)
    spent = []

    def seconds(name, count):
        spent.append({"a": 1e-3, "b": 30e-3, "c": 31e-3, "d": 32e-3}[name])
        return spent[-1]

    play(trial, seconds)
    assert trial.taken == "a"
    assert (
        sum(one - 1e-3 for one in spent) <= 0.05 + 2 * 32e-3 + 4 * 32e-3
    )  # the first of each is code generation
    slow = Trial(["a", "b"], 1e-9)
    assert len(play(slow, lambda name, count: {"a": 1.0, "b": 1.1}[name])) == 2 * (
        1 + ROUNDS
    )  # below ten executions
    assert BUDGET_RUNS == 10


def test_executions_at_once_go_the_way_that_leads_and_are_not_timed():
    trial = Trial(["a", "b"], 1.0)
    outer = trial.begin()
    inner = trial.begin()
    assert outer.timed
    assert not inner.timed
    assert trial.names[inner.way] == "a"
    trial.end(inner, 1e-9)
    trial.end(outer, 1e-9)  # it was disturbed
    assert trial.times == {}
    assert not trial.told([1]).tried[0].seconds


def test_it_ends_where_nothing_can_be_timed():
    trial = Trial(["a", "b"], 1.0)
    trial.begin()  # one that never ends, as of a thread that a fork left behind
    for _ in range(MOST_BEGUN * (ROUNDS + 1) * 2 - 1):
        assert not trial.settled
        trial.end(trial.begin(), 1e-3)
    assert trial.settled
    assert trial.taken == "a"


def test_a_way_that_fails_has_no_more_turns():
    trial = Trial(["a", "b"], 1.0)
    trial.end(trial.begin(), None, "no such kernel")
    assert trial.taken == "b"
    play(trial, lambda name, count: 1e-3)
    assert trial.taken == "b"
    assert trial.told([1]).tried[0].dropped == "no such kernel"


def test_many_threads_settle_on_one_way():
    choices = Choices()
    trial = choices.trial("p", ["a", "b"], 1.0)

    def work():
        while not trial.settled:
            turn = trial.begin()
            trial.end(turn, {"a": 2e-3, "b": 1e-3}[trial.names[turn.way]])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert choices.taken("p") == trial.taken


# --- choices ---------------------------------------------------------------------------------------------


def test_a_problem_has_one_trial_and_then_one_way():
    choices, told = Choices(), []
    trial = choices.trial("p", ["a", "b"], 1.0, told.append)
    assert choices.trial("p", ["a", "b"], 1.0) is trial
    assert choices.taken("p") is None
    before = choices.version
    play(trial, lambda name, count: {"a": 2e-3, "b": 1e-3}[name])
    assert choices.taken("p") == "b"
    assert choices.version > before
    assert set(choices.times("p")) == {"a", "b"}
    assert len(told) == 1


def test_settling_ends_trials_and_tells_nobody():
    choices, told = Choices(), []
    trial = choices.trial("p", ["a", "b"], 1.0, told.append)
    trial.end(trial.begin(), 1e-3)
    choices.settle()
    assert trial.settled
    assert choices.fixed
    assert choices.settled == {"p": "a"}
    assert told == []  # half a trial is not for other processes


def test_taking_over_replaces_all():
    choices = Choices({"p": "a", "q": "b"})
    trial = choices.trial("r", ["a", "b"], 1.0)
    before = choices.version
    choices.take_over({"p": "c"})
    assert trial.settled
    assert choices.fixed
    assert choices.version > before
    assert choices.settled == {"p": "c"}
    choices.note("p", "d")
    choices.note("s", "d")
    assert choices.settled == {"p": "c", "s": "d"}
