"""Python's collector of cycles rests while graphs are compiled, and works again whatever happens."""

import gc
import threading

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.graph.compile import whole
from onednn_graph.graph.runtime.collecting import at_rest


@pytest.fixture(autouse=True)
def working():
    assert gc.isenabled()
    yield
    gc.enable()


def test_it_works_again_after_the_last_block():
    with at_rest():
        assert not gc.isenabled()
        with at_rest():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), at_rest():
        raise KeyError
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_so():
    gc.disable()
    with at_rest():
        pass
    assert not gc.isenabled()


def test_blocks_of_threads_overlap():
    begun, over = threading.Event(), threading.Event()

    def other():
        with at_rest():
            begun.set()
            over.wait()

    with at_rest():
        thread = threading.Thread(target=other)
        thread.start()
        begun.wait()
    assert not gc.isenabled()
    over.set()
    thread.join()
    assert gc.isenabled()


def test_graphs_are_planned_at_rest(monkeypatch, onednn):
    seen = []

    def noted(*args, real=whole.partitions_of, **kwargs):
        seen.append(gc.isenabled())
        return real(*args, **kwargs)

    monkeypatch.setattr(whole, "partitions_of", noted)
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [2, 3])), name="y")
    graph.compile()(np.ones((2, 3), np.float32))
    assert seen == [False]
    assert gc.isenabled()


def test_saved_models_are_loaded_at_rest(tmp_path):
    """With the modules that are imported for the first: the collector would look at them all."""
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [2, 3])), name="y")
    graph.compile().save_compiled(tmp_path / "model")
    script = """
import gc, json, sys
import onednn_graph as og
gc.collect()
seen = []
gc.callbacks.append(lambda phase, told: seen.append(phase))
model = og.Graph.load_compiled(sys.argv[1])
print(json.dumps([len(seen) <= 2, gc.isenabled()]))
"""
    assert processes.printed(script, str(tmp_path / "model")) == [True, True]


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="of POSIX")
def test_a_child_of_a_fork_has_it_at_work():
    script = """
import gc, json, os
from onednn_graph.graph.runtime.collecting import at_rest
with at_rest():
    reads, writes = os.pipe()
    if not os.fork():
        os.write(writes, str(gc.isenabled()).encode())
        os._exit(0)
    told = os.read(reads, 10).decode()
    os.wait()
    here = gc.isenabled()
print(json.dumps([told, here, gc.isenabled()]))
"""
    assert processes.printed(script) == ["True", False, True]
