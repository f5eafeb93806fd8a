"""What all tests share."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

import onednn_graph as og
import pytest
from c_headers import text_of_headers
from hypothesis import HealthCheck, settings
from left_out import note
from newer_library import lacking
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.proven import SHIPPED, Swept, runtime_of
from onednn_graph.backends.onednn.proven import swept as how_swept
from onednn_graph.graph.trust.store import STORE

settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

ROOT = Path(__file__).parent.parent
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="onednn_graph-settings-")
"""No test has the library that the user has made the default; modules of tests load one when they are imported."""
atexit.register(shutil.rmtree, os.environ["XDG_CONFIG_HOME"], ignore_errors=True)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    # Processes side by side that each have a thread for every CPU spend most of their time waiting in a loop. Kernels
    # for several threads run on two. OpenMP reads this when the library is loaded, in children as well.
os.environ.setdefault(
    "ONEDNN_GRAPH_VERIFY", "inline"
)  # faults are planted in this process; children would not see them
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
"""What is said of the project for tools."""
MODEL_TABLE = pytest.StashKey[list]()


@pytest.fixture(scope="session", autouse=True)
def tuning_cache_of_tests(tmp_path_factory):
    """No test reads or writes the user's own measurements."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path_factory.mktemp("tuned")))
        yield


@pytest.fixture(autouse=True)
def verdicts_of_a_test():
    """No test trusts a kernel for what another one has seen, or made it do."""
    yield
    STORE.clear()


def pytest_runtest_setup(item):
    """What needs a newer oneDNN than the one that is loaded is skipped."""
    for mark in item.iter_markers("library"):
        if reason := lacking(*mark.args):
            pytest.skip(reason)


def pytest_configure(config):
    """What is left out is noted by the process that leaves it out, not by one that hands tests to others."""
    spread = config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    config.pluginmanager.register(LeftOut(inside=not spread))


class LeftOut:
    """See `left_out`."""

    def __init__(self, *, inside):
        self.inside = inside

    def pytest_runtest_logreport(self, report):
        note(report, inside=self.inside)

    def pytest_collectreport(self, report):
        note(report, inside=self.inside)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    """Nothing traces what is marked no_cover.

    In processes side by side pytest-cov measures twice, one measurement within the other: when it stops the inner one
    for such a test, the outer one goes on, which costs as much and is thrown away.
    """
    if item.get_closest_marker("no_cover") is None:
        return (yield)
    here, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        threading.settrace(in_threads)
        sys.settrace(here)


@pytest.fixture(scope="session")
def onednn():
    """The oneDNN backend, or a skip."""
    reason = og.list_backends()["onednn"]
    if reason is not None:
        pytest.skip(f"backend onednn is not available: {reason}")
    from onednn_graph.graph.compile.backend import BACKENDS

    return BACKENDS.get("onednn")


@pytest.fixture(scope="session")
def corpus():
    """The folder of the reference corpus."""
    folder = Path(os.environ.get("ONEDNN_GRAPH_CORPUS", ROOT.parent / "shared"))
    if not (folder / "reference").is_dir():
        pytest.skip("the reference corpus is not here; set ONEDNN_GRAPH_CORPUS to its folder")
    return folder


@pytest.fixture(scope="session")
def model_table(pytestconfig):
    """Rows of the table of models that is printed at the end: attrs or dataclass instances with the same fields."""
    return pytestconfig.stash.setdefault(MODEL_TABLE, [])


def pytest_terminal_summary(terminalreporter, config):
    rows = [vars(row) for row in config.stash.get(MODEL_TABLE, [])]
    if not rows:
        return
    terminalreporter.section("models")
    cells = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        terminalreporter.write_line(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def _shown(value):
    return f"{value:.1e}" if isinstance(value, float) else str(value)


@pytest.fixture
def swept(onednn):
    """Skips what only holds for oneDNNs and CPUs that the fuzzers have swept in full: on others much is verified."""
    lib = load()
    proofs = SHIPPED[runtime_of(lib)].proofs(lib.version[:2])
    if how_swept(lib) is not Swept.full or proofs is None:
        pytest.skip(f"no fuzzer has swept oneDNN {lib.version} in full: much that runs on it is verified")
    if lib.effective_isa not in proofs.instruction_sets:
        pytest.skip(f"no fuzzer has run on {lib.effective_isa}: much that runs on it is verified")


@pytest.fixture(scope="session")
def headers():
    """The text of the library's C headers."""
    return text_of_headers()


@pytest.fixture(scope="module")
def one_thread():
    """Torch in one thread: more cost ten times what they give on tensors as small as those of tests."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
