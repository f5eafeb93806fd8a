"""Tests that need a newer oneDNN are skipped on others, in one line that says how to get it."""

import pytest
from newer_library import lacking
from onednn_graph.backends.onednn.library.loading import load


@pytest.mark.library("3.2")
def test_the_oldest_is_always_new_enough(onednn):
    assert lacking("3.2") is None


@pytest.mark.library("3.99")
def test_what_nobody_has_is_skipped(onednn):
    pytest.fail("it runs on a version that is too old")


@pytest.mark.library("3.13")
def test_what_needs_a_version_runs_with_it(onednn):
    assert load().version >= (3, 13)


def test_a_reason_is_one_line_with_the_way_out(onednn):
    reason = lacking("3.99")
    assert reason.startswith("needs oneDNN 3.99, and 3.")
    assert "conda install -c conda-forge" in reason
    assert "ONEDNN_GRAPH_LIBRARY=" in reason
    assert "\n" not in reason
