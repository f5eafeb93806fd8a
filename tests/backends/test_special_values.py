"""The page on NaN, infinities and zeros says what is measured here, on whatever instruction set this runs."""

import json

import numpy as np
import onednn_graph as og
import pytest
import special_values

WANTED = json.loads(special_values.DATA.read_text(encoding="utf-8"))
AGAIN = "run `python tests/support/special_values.py`"


def test_the_page_has_what_was_measured():
    assert special_values.PAGE.read_text(encoding="utf-8") == special_values.page_with(WANTED), AGAIN


@pytest.mark.no_cover
def test_what_is_measured_here_is_on_the_page(onednn):
    del onednn
    found = {tuple(row) for row in special_values.measured()}
    isa = special_values.isa()
    if isa in WANTED:
        known = {tuple(row) for row in WANTED[isa]}
        assert found - known == set(), f"new differences on {isa}; mend them, or {AGAIN}"
        assert known - found == set(), f"differences that are gone on {isa}; {AGAIN}"
    else:
        # Kernels of an instruction set that the page does not have differ where those of another do.
        known = {tuple(row[:6]) for rows in WANTED.values() for row in rows}
        assert {row[:6] for row in found} - known == set(), f"new differences on {isa}"


@pytest.mark.parametrize(
    ("expected", "got", "pairs"),
    [
        ([np.nan, 1], [np.nan, 1], set()),
        ([np.nan, 1], [0, 1], {("NaN", "0")}),
        ([np.inf, -np.inf], [-np.inf, np.nan], {("∞", "−∞"), ("−∞", "NaN")}),
        ([0.0, -0.0], [-0.0, -0.0], {("0", "−0")}),
        ([1e-40, 0.0], [0.0, 1e-40], {("subnormal", "0"), ("0", "subnormal")}),
        ([100.0, 1.0], [100.001, 1.0], set()),
        ([100.0, 1.0], [110.0, 1.0], {("a number", "another number")}),
    ],
)
def test_differences(expected, got, pairs):
    one, other = np.array(expected, np.float32), np.array(got, np.float32)
    assert special_values.differences(one, other) == pairs


def test_numpy_keeps_nan():
    """What the page states: NaN in an element is NaN in what is computed from it."""
    x = np.array([[1, np.nan, -2]], np.float32)
    for kind in ("relu", "exp", "sigmoid", "tanh", "gelu", "abs", "sqrt", "hard_swish", "mish"):
        assert np.isnan(getattr(og, kind)(x, backend="numpy")[0, 1])
    assert np.isnan(og.maximum(x, np.zeros(3, np.float32), backend="numpy")[0, 1])
    assert np.isnan(og.softmax(x, axis=1, backend="numpy")).all()
    assert np.isnan(og.reduce_max(x, axes=[1], backend="numpy")).all()
