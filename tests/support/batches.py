"""Primitives in batches of machine code, and without."""

import pytest
from onednn_graph.backends.onednn.library import batch


@pytest.fixture(params=["in one call", "one by one"])
def way(request, monkeypatch):
    """Both ways; the second as on a machine that gives no executable memory."""
    if request.param == "one by one":
        monkeypatch.setattr(batch, "_start", lambda: None)
    elif batch._start() is None:
        pytest.skip("this system gives no executable memory")
