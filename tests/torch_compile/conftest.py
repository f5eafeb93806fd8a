"""Every test begins with nothing compiled."""

import pytest


@pytest.fixture(autouse=True)
def _fresh():
    torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
