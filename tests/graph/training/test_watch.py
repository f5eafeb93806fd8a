"""The watch of each rank over its neighbours: here all ranks are of one process."""

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from onednn_graph.graph.training import neighbours, watch
from onednn_graph.graph.training.neighbours import Neighbour, connected
from onednn_graph.graph.training.watch import Loss, Watch

BEAT = 0.02


class Exchange:
    """What one rank of several threads says to its neighbours."""

    def __init__(self, ranks):
        self._forwards, self._backwards = ([queue.Queue() for _ in range(ranks)] for _ in range(2))
        self._ranks = ranks

    def of(self, rank):
        def exchange(text):
            self._forwards[(rank + 1) % self._ranks].put(text)
            self._backwards[(rank - 1) % self._ranks].put(text)
            return self._forwards[rank].get(timeout=10), self._backwards[rank].get(timeout=10)

        return exchange


def ring(ranks, seconds=5.0):
    exchange = Exchange(ranks)

    def one(rank):
        return connected(((rank - 1) % ranks, (rank + 1) % ranks), exchange.of(rank), seconds)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(one, range(ranks)))


@pytest.fixture
def watches(request):
    """Some watches in a ring, and who was ended by them."""
    ranks, silence = getattr(request, "param", (5, 60.0))
    ended = {}
    made = []
    for rank, pair in enumerate(ring(ranks)):
        for one in pair:
            one._process = None  # all of them are in this process, which runs
        end = partial(ended.__setitem__, rank)
        made.append(Watch(rank, pair, silence=silence, end=end, beat=BEAT, grace=10 * BEAT))
    yield made, ended
    for one in made:
        one.close()


def until(true, seconds=10.0):
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds
        time.sleep(BEAT / 4)


def test_all_hear_of_one_that_is_lost_and_are_ended_where_they_do_not_listen(watches, capsys):
    made, ended = watches
    made[2].close()  # as the system does it
    others = [0, 1, 3, 4]
    want = Loss(2, "its process has ended without a word")
    until(lambda: all(made[n]._loss == want for n in others))
    assert made[0].loss() == want
    until(lambda: len(ended) == 3)
    assert ended == dict.fromkeys([1, 3, 4], f"rank 2 is lost: {want.why}")
    told = capsys.readouterr().err
    assert {f"rank {n}: rank 2 is lost: {want.why}" for n in (1, 3)} >= {*told.splitlines()}
    assert told


def test_one_that_fails_says_why(watches):
    made, _ = watches
    made[4].fails("it has failed: no data")
    until(lambda: all(one.loss() == Loss(4, "it has failed: no data") for one in made[:4]))


def test_one_that_leaves_is_not_lost(watches):
    made, ended = watches
    made[3].leaves()
    until(lambda: made[2]._neighbours[1].left and made[4]._neighbours[0].left)
    made[3].close()
    time.sleep(10 * BEAT)
    assert not ended
    assert all(one.loss() is None for one in made)


@pytest.mark.parametrize("watches", [(3, 0.5)], indirect=True)
def test_silence_is_loss(watches, monkeypatch):
    made, _ = watches
    monkeypatch.setattr(made[1], "_say", lambda word: None)
    why = "it has given no sign of life for 0.5 s"
    until(lambda: made[0].loss() == made[2].loss() == Loss(1, why))


@pytest.mark.parametrize("watches", [(3, 0.5)], indirect=True)
def test_a_silent_process_that_runs_is_not_lost(watches, monkeypatch):
    made, _ = watches
    made[0]._neighbours[1]._process = made[2]._neighbours[0]._process = os.getpid()
    monkeypatch.setattr(made[1], "_say", lambda word: None)
    time.sleep(1.5)
    assert made[0].loss() is None
    assert made[2].loss() is None


@pytest.mark.parametrize("watches", [(2, 0.5)], indirect=True)
def test_a_child_does_not_keep_connections_open(watches):
    made, _ = watches
    child = os.fork()
    if not child:
        time.sleep(20)
        os._exit(0)
    try:
        made[1].close()
        until(lambda: made[0].loss() == Loss(1, "its process has ended without a word"), 5)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_who_is_late_says_where_it_is(watches):
    made, _ = watches
    for one in made:
        one.note(7, "Trainer.step")
    assert made[0].late() is None
    made[3].note(6, "Trainer.save")
    rank, told = made[0].late()
    assert rank == 3
    assert told.startswith("came last to Trainer.save, 0 s ago, and is at ")
    assert f"{watch.__file__}:" in told  # where this thread waits for the answer


def test_whose_process_is_stopped_does_not_run():
    with (
        socket.socket() as nothing,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process,
    ):
        one = Neighbour(1, nothing, process.pid)
        assert one.runs()
        process.send_signal(signal.SIGSTOP)
        until(lambda: not one.runs())
        process.kill()
    assert not one.runs()
    assert not Neighbour(1, nothing).runs()


def test_neighbours_elsewhere_are_reached_by_their_address(monkeypatch):
    place = threading.local()
    names = iter(["here", "there"])

    def here():
        place.name = getattr(place, "name", None) or next(names)
        return [place.name, "", "", ""]

    monkeypatch.setattr(neighbours, "here", here)
    addresses = neighbours._addresses()
    if not addresses:
        pytest.skip("this machine has no address but the loopback")
    pairs = ring(2)
    pairs[0][1].say({"left": True})
    until(lambda: pairs[1][0].words() == [{"left": True}])
    for pair in pairs:
        for one in pair:
            assert one._process is None
            one.close()


def test_a_stranger_is_turned_away(monkeypatch):
    real = neighbours._reach

    def reach(addresses, port, secret, until):
        with socket.create_connection((addresses[0], port)) as stranger:
            stranger.sendall(b"x" * len(secret))
            return real(addresses, port, secret, until)

    monkeypatch.setattr(neighbours, "_reach", reach)
    for pair in ring(2):
        for one in pair:
            assert not one.gone
            one.close()


def test_one_that_cannot_be_reached_is_an_error(monkeypatch):
    monkeypatch.setattr(neighbours, "_addresses", list)
    monkeypatch.setattr(neighbours, "here", lambda: [str(threading.get_ident())])
    with pytest.raises(OSError, match="listens nowhere"):
        ring(2, 0.5)
