"""Every test begins with nothing compiled, on one thread; tests of regions need no torch, and run without."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _fresh():
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
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
