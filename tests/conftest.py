"""What all tests share."""

import os
from pathlib import Path

import onednn_graph as og
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def onednn():
    """The oneDNN backend, or a skip."""
    reason = og.backends()["onednn"]
    if reason is not None:
        pytest.skip(f"backend onednn is not available: {reason}")
    from onednn_graph.graph.backend import BACKENDS

    return BACKENDS.get("onednn")


@pytest.fixture(scope="session")
def corpus():
    """The folder of the reference corpus."""
    folder = Path(os.environ.get("ONEDNN_GRAPH_CORPUS", ROOT.parent / "shared"))
    if not (folder / "reference").is_dir():
        pytest.skip("the reference corpus is not here; set ONEDNN_GRAPH_CORPUS to its folder")
    return folder
