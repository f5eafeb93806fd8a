"""What holds models to double precision sees small defects."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

import torch_agreement  # noqa: E402 -- torch comes first
from torch_agreement import Case, agree, normal  # noqa: E402
from torch_compiled import Network  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
CASE = Case("network", Network, lambda: {"x": normal(4, 3, 8, 8)})


def scaled(found):
    found.gradients["second.weight"] *= 1.01


def dropped(found):
    found.gradients["last.bias"].zero_()


def stale(found):
    found.buffers["norm.running_mean"].zero_()


@pytest.mark.parametrize("defect", [scaled, dropped, stale])
def test_a_defect_is_seen(defect, monkeypatch):
    right = torch_agreement.run

    def run(*given, compiled):
        found, model = right(*given, compiled=compiled)
        if compiled:
            defect(found)
        return found, model

    assert not agree(CASE, "f32")[0]
    monkeypatch.setattr(torch_agreement, "run", run)
    assert agree(CASE, "f32")[0]
