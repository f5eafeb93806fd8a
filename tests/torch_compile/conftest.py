"""Every test begins with nothing compiled, on one thread; tests of regions need no torch, and run without."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _fresh():
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    from onednn_graph.graph.torch_compile import report

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # Torch keeps graphs in the globals of what it has compiled, and reports tell of those without parameters.
    report._compiled.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch = sys.modules.get("torch")  # collecting has imported it where there is any
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
