"""The page with a table of ATen's ops: all that have a translation, who takes them, and what they become."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
pytest.importorskip("expecttest", reason="torch's own tests need it; install the extra 'test-oracles'")

from aten_ops import REAL, WHOLE, becomes, op_db  # noqa: E402 -- torch comes first
from aten_ops_page import HEAD, NAMES, PAGE, TORCH, compiled, imported, read  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

AGAIN = "run tests/tools/write_aten_ops.py"
CHEAP = (
    "addcmul",
    "clamp",
    "cumsum",
    "nn.functional.gelu",
    "nn.functional.layer_norm",
    "where",
    "topk",
    "unsqueeze",
)
"""Operators whose samples take less than a second."""


def test_every_op_has_its_row():
    text = PAGE.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    rows = read(text)
    assert list(rows) == NAMES, AGAIN
    for name, (_, _, where, there) in rows.items():
        assert (where, there) == (imported(name), compiled(name)), f"{name}: {AGAIN}"


@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != TORCH,
    reason=f"the page tells of samples of torch {TORCH}",
)
def test_what_samples_become_is_on_the_page():
    rows = read(PAGE.read_text(encoding="utf-8"))
    found = becomes([op for op in op_db if op.name in CHEAP])
    assert len(found) > 70
    for (name, numbers), kinds in found.items():
        if name in rows:
            real, whole, _, _ = rows[name]
            assert kinds <= {REAL: real, WHOLE: whole}[numbers], f"{name}: {AGAIN}"


def test_ops_are_read_from_translations():
    aten = torch.ops.aten
    x, numbers = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int64)
    calls = [(aten.abs.default, (x,)), (aten.abs.default, (numbers,)), (aten.view.default, (x, [3, 2]))]
    assert becomes([], calls) == {
        ("aten.abs", REAL): {"Abs"},
        ("aten.abs", WHOLE): {"HostAbs"},
        ("aten.view.default", REAL): set(),
    }
    assert becomes([SimpleNamespace(supported_dtypes=lambda _: ())], []) == {}
