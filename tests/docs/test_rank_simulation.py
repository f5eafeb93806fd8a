"""The simulation of many ranks agrees with what can be said on paper."""

import sys
from itertools import pairwise

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(ROOT / "benchmarks"))
from rank_simulation import ALGORITHMS, Bucket, Network, Timeline, efficiency, faster, fitted, on, simulate

MIB = 1 << 20


def timeline(*buckets, computed=1.0, rest=0.25, alone=1.2):
    return Timeline(
        model="a model",
        batch=8,
        threads=1,
        alone=alone,
        buckets=tuple(Bucket(*one) for one in buckets),
        computed=computed,
        total=computed + rest,
    )


def test_one_bucket_at_the_end_is_waited_for_whole():
    for busy in (0.0, 0.5, 1.0):
        made = simulate(timeline((1.0, MIB)), lambda nbytes: nbytes / MIB, meeting=0.125, busy=busy)
        assert made.seconds == pytest.approx(0.125 + 1.0 + 1.0 + 0.25)
        assert made.waited == pytest.approx(1.0)


def test_without_overlap_exchanges_add_up():
    full = [(1.0, MIB), (1.0, 2 * MIB), (1.0, MIB // 2)]
    made = simulate(timeline(*full), lambda nbytes: nbytes / MIB)
    assert made.seconds == pytest.approx(1.25 + 3.5)
    assert [flight.start for flight in made.flights] == pytest.approx([1.0, 2.0, 4.0])


def test_what_is_hidden_costs_nothing():
    full = [(0.3, MIB), (0.6, MIB), (0.8, MIB)]
    made = simulate(timeline(*full), lambda _: 0.2)
    assert made.seconds == pytest.approx(1.25)
    assert made.waited == 0.0


def test_a_bucket_waits_for_the_one_before():
    made = simulate(timeline((0.3, MIB), (0.4, MIB), (1.0, MIB)), lambda _: 0.5)
    assert [flight.start for flight in made.flights] == pytest.approx([0.3, 0.8, 1.3])
    assert made.seconds == pytest.approx(1.8 + 0.25)


@pytest.mark.parametrize("full", [(0.3, 0.6, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)])
def test_where_the_same_cpu_does_both_nothing_is_hidden(full):
    made = simulate(timeline(*[(at, MIB) for at in full]), lambda _: 0.5, busy=1.0)
    assert made.seconds == pytest.approx(1.0 + 3 * 0.5 + 0.25)


def test_half_a_cpu_lets_computation_go_on_at_half_speed():
    made = simulate(timeline((0.5, MIB)), lambda _: 0.4, busy=0.5)
    assert made.computed == pytest.approx(0.5 + 0.4 + 0.3)
    assert made.waited == 0.0


def test_latencies_alone():
    one = timeline((1.0, MIB), (1.0, MIB))
    for ranks, hops in ((2, 1), (3, 2), (4, 2), (1024, 10), (4096, 12)):
        halving = Network("x", 1e-3, 0.0)
        assert on(one, halving, ranks).seconds == pytest.approx(
            1.25 + 3 * 2 * hops * 1e-3
        )  # with the meeting
        ring = Network("x", 1e-3, 0.0, algorithm="ring")
        assert on(one, ring, ranks).seconds == pytest.approx(1.25 + 3 * 2 * (ranks - 1) * 1e-3)


def test_bytes_alone():
    network = Network("x", 0.0, 1e-6)
    assert network.exchange(2, 1000) == pytest.approx(1e-3)
    assert network.exchange(4096, 1000) == pytest.approx(2e-3, rel=1e-3)
    assert network.exchange(1, 1000) == 0.0


def test_ranks_of_a_node_sum_before_they_go_out():
    inside = Network("memory", 1e-6, 1e-10)
    network = Network("x", 1e-4, 1e-9, per_node=4, inside=inside)
    assert network.exchange(4, MIB) == inside.exchange(4, MIB)
    assert network.exchange(64, MIB) == inside.exchange(4, MIB) + Network("x", 1e-4, 1e-9).exchange(16, MIB)


def test_what_was_fitted_gives_what_was_measured():
    for ranks in (2, 3, 4, 8):
        network = Network("x", *fitted(ranks, 2e-4, 4 * MIB, 5e-3))
        assert network.exchange(ranks, 0) == pytest.approx(2e-4)
        assert network.exchange(ranks, 4 * MIB) == pytest.approx(5e-3)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 64 * MIB)), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from(ALGORITHMS),
)
def test_a_step_takes_no_less_than_its_parts_and_no_more_than_their_sum(buckets, busy, algorithm):
    one = timeline(*sorted(buckets))
    network = Network("x", 1e-5, 1e-9, busy=busy, algorithm=algorithm)
    times = [on(one, network, ranks).seconds for ranks in (1, 2, 16, 1024)]
    assert times == sorted(times)
    for ranks, seconds in zip((2, 16, 1024), times[1:], strict=True):
        exchanges = sum(network.exchange(ranks, nbytes) for _, nbytes in buckets)
        meeting = network.exchange(ranks, 48)
        assert max(one.total, exchanges) <= seconds <= (one.total + exchanges + meeting) * (1 + 1e-9)
        flights = on(one, network, ranks).flights
        assert all(a.end <= b.start for a, b in pairwise(flights))
        assert efficiency(one, network, ranks) == pytest.approx(one.alone / seconds)


def test_who_computes_faster_hides_less():
    one, network = timeline((0.3, MIB), (1.0, MIB)), Network("x", 0.0, 2e-7)
    assert efficiency(one, network, 1024) > efficiency(faster(one, 4), network, 1024)
    assert faster(one, 4).total == one.total / 4


def test_a_timeline_is_read_as_it_was_written():
    one = timeline((0.5, MIB), (1.0, 7))
    assert Timeline.from_json(one.to_json()) == one
