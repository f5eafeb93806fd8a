"""The generator of models: the same for a seed, written and read, and a planted defect is found and shrunk."""

import json

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from model_fuzz.drawing import Draw  # noqa: E402 -- torch comes first
from model_fuzz.inputs import Input  # noqa: E402
from model_fuzz.judging import built, inputs_of, judged  # noqa: E402
from model_fuzz.shrinking import shrunk  # noqa: E402
from model_fuzz.spec import Line, Spec  # noqa: E402
from onednn_graph.graph.torch_compile.plan import regions  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)
SPEC = Spec(
    3,
    {"x0": Input((2, 4))},
    {"m0": "nn.Linear(4, 4)", "p1": "torch.randn(4)"},
    (
        Line("v0", "v0 = self.m0(x0)", (2, 4)),
        Line("v1", "v1 = v0.tanh()", (2, 4)),
        Line("v2", "v2 = v1 * self.p1", (2, 4)),
        Line("v3", "v3 = v2.clone()\nv3[0] = 0.5", (2, 4)),
    ),
    ("v3", "v1"),
)


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_is_a_module(seed):
    spec = Draw(seed).module()
    assert spec == Draw(seed).module()
    assert spec == Spec.from_json(json.loads(json.dumps(spec.to_json())))
    first, second = (built(spec).eval()(*inputs_of(spec, torch.float32)) for _ in range(2))
    assert len(first) == len(spec.outputs)
    for one, other, name in zip(first, second, spec.outputs, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
        assert tuple(one.shape) == spec.shape_of(name)


@pytest.mark.parametrize("way", ["inference", "training", "from_torch", "from_onnx"])
def test_a_module_is_right_each_way(way):
    found = judged(SPEC, way)
    assert found.status == "ok", found


def test_a_defect_is_found_and_shrunk_to_its_op(monkeypatch):
    monkeypatch.setitem(regions.TABLE, "aten.tanh", regions.TABLE["aten.sigmoid"])
    found = judged(SPEC, "inference")
    assert (found.status, found.what) == ("wrong", "wrong output")
    smallest = shrunk(SPEC, lambda spec: judged(spec, "inference").status == "wrong", 60)
    assert [line.code.split(" = ")[1] for line in smallest.lines] == ["x00.tanh()"]
    assert not smallest.held


def test_an_error_of_ours_is_a_finding(monkeypatch):
    def fail(*given):
        raise RuntimeError("something is the matter")

    monkeypatch.setattr(regions, "recognise", fail)
    found = judged(SPEC, "inference")
    assert found.status == "error"
    assert "something is the matter" in found.what
