"""A number format that is slower here than f32 is said to be."""

import warnings

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.compile.backend import BACKENDS, Rated
from onednn_graph.graph.precision import rates as telling
from onednn_graph.ops.data_types import DataType
from onednn_graph.ops.errors import LibraryError, SlowTypeWarning


class Measured:
    """A backend that tells what it is told to."""

    name, plans_with, patterns = "measured", (), ()

    def __init__(self, **rates):
        self.told = {DataType(name): rate for name, rate in rates.items()}

    def unavailable(self):
        return None

    def why_not(self, ops):
        return "it runs nothing"

    def compile(self, request):
        return iter(())

    def rates(self):
        if not self.told:
            raise LibraryError("nothing is known")
        return self.told


@pytest.fixture
def machine(monkeypatch):
    """Has one backend alone, which was measured so."""

    def of(**rates):
        monkeypatch.setattr(telling, "_told", set())
        monkeypatch.setattr(
            type(BACKENDS), "candidates", lambda self: (Measured(**rates), BACKENDS.get("numpy"))
        )

    return of


def graph():
    made = og.Graph()
    made.relu(
        made.matmul(made.input("x", "f32", [2, 4]), made.constant(np.ones((4, 3), np.float32))), name="y"
    )
    return made


def messages(act):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        act()
        act()
    return [str(one.message) for one in seen if one.category is SlowTypeWarning]


def narrow():
    graph().to("bf16")


def quantise():
    graph().quantize_static([np.ones((2, 4), np.float32)])


@pytest.mark.parametrize(("act", "what"), [(narrow, "bf16"), (quantise, "8-bit integers")])
def test_what_is_slower_is_said_once(machine, act, what):
    machine(f32=156e9, bf16=84e9, u8=84e9)
    (said,) = messages(act)
    assert said.startswith(f"products of {what} reach 54% of f32's speed on this machine (84 for 156 GF/s)")


@pytest.mark.parametrize("act", [narrow, quantise])
@pytest.mark.parametrize("rates", [{"f32": 100e9, "bf16": 95e9, "u8": 190e9}, {}], ids=["as fast", "unknown"])
def test_nothing_is_said_where_there_is_nothing_to_say(machine, act, rates):
    machine(**rates)
    assert messages(act) == []


def without_products():
    made = og.Graph()
    made.softmax(made.relu(made.input("x", "f32", [2, 4])), axis=1, name="y")
    return made


@pytest.mark.parametrize(
    "act",
    [
        lambda: without_products().to("bf16"),
        lambda: without_products().quantize_static([np.ones((2, 4), np.float32)]),
        lambda: graph().to("bf16", keep=["MatMul"]),
        lambda: graph().quantize_static([np.ones((2, 4), np.float32)], keep=["MatMul"]),
    ],
)
def test_nothing_is_said_of_products_where_none_is_in_that_type(machine, act):
    machine(f32=156e9, bf16=84e9, u8=84e9)
    assert messages(act) == []
    assert messages(narrow)


def test_products_are_measured_once_for_a_machine(tmp_path, monkeypatch):
    from onednn_graph.backends.onednn import rates as measuring

    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    backend = BACKENDS.get("onednn")
    assert isinstance(backend, Rated)
    first = backend.rates()
    assert first.keys() == {DataType.f32, DataType.bf16, DataType.u8}
    assert all(1e8 < rate < 1e15 for rate in first.values())
    (file,) = tmp_path.glob("*.json")
    monkeypatch.setattr(measuring, "_measured", lambda backend: pytest.fail("it is known"))
    measuring._rates.cache_clear()
    assert backend.rates() == pytest.approx(first)
    file.write_text("no times")
    measuring._rates.cache_clear()
    monkeypatch.setattr(measuring, "_measured", lambda backend: {"f32": 1.0, "bf16": 0.5, "u8": 0.25})
    with pytest.warns(og.errors.TuningCacheWarning):
        again = backend.rates()
    assert again[DataType.u8] == 4 * again[DataType.f32]
