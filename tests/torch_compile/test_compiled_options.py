"""Options, reports and errors of `torch.compile(…, backend="onednn_graph")`."""

import re

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.torch import Options, report  # noqa: E402 -- torch comes first
from torch_compiled import Network, assert_near, compiled, in_double, normal, seeded  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

WRONG = [
    ({"options": {"precison": "bf16"}}, og.ArgumentError, "no option 'precison' (did you mean 'precision'?)"),
    ({"options": {"precision": "int8"}}, og.ArgumentError, "precision must be 'f32' or 'bf16', got 'int8'"),
    ({"options": {"verify": 1}}, og.ArgumentTypeError, "verify must be True or False, got 1"),
    (
        {"options": {"tune": "sometimes"}},
        og.ArgumentError,
        "tune must be one of off, cached, measure, online, got 'sometimes'",
    ),
    (
        {"options": {"tune": True}},
        og.ArgumentError,
        "tune must be one of off, cached, measure, online, got True",
    ),
    (
        {"mode": "reduce-overhead"},
        og.ArgumentError,
        "the modes 'default' and 'max-autotune', got 'reduce-overhead'",
    ),
]


@pytest.mark.parametrize(("given", "kind", "message"), WRONG)
def test_wrong_options(given, kind, message):
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        compiled(lambda x: x + 1, **given)(normal(3))
    if not isinstance(caught.value, kind):
        assert kind.__name__ in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"options": {"verify": True}},
        {"options": {"tune": "online"}},
        {"options": {"tune": "measure"}},
        {"mode": "max-autotune"},
        {"mode": "default"},
        {},
    ],
)
def test_options(given, monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    module = seeded(Network)
    expected, x = in_double(module, normal(2, 3, 8, 8))
    made = compiled(module, **given)(x.float())
    assert_near(made, expected(x))
    made.sum().backward()


def test_options_have_defaults():
    assert Options.of(None) == Options(precision="f32", tune="off", verify=False)
    assert Options.of({"tune": "measure"}) == Options.of({}, "max-autotune") == Options(tune="measure")


def test_precision_is_autocast_with_results_in_f32():
    module = seeded(Network)
    expected, exact = in_double(module, normal(4, 3, 8, 8))
    x = exact.float()
    with torch.autocast("cpu", torch.bfloat16):
        eager = seeded(Network)(x)
    made = compiled(module, options={"precision": "bf16"})(x)
    right = expected(exact)
    assert made.dtype == torch.float32
    assert (made - right).norm() <= 1.5 * (eager - right).norm() + 1e-3 * right.norm()
    assert (made - right).norm() > 1e-4 * right.norm()  # it is not f32
    made.sum().backward()
    assert {one.grad.dtype for one in module.parameters()} == {torch.float32}


class Odd(nn.Module):
    """With an op that nobody but torch has, and no gradient for what it makes."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = self.first(x).relu()
        x = x + torch.linalg.matrix_exp(x[:, :1, None] * torch.ones(1, 2, 2))[:, 0, :1]
        return self.last(x)


def test_a_report_before_the_first_call():
    assert str(report(nn.Linear(2, 2))) == "nothing was compiled yet; call the model first"


def test_a_report_of_a_function_a_method_and_of_nothing_that_torch_compiles():
    module = seeded(Odd)
    function = compiled(lambda x: x.relu() + 1)
    method = compiled(module.forward)
    function(normal(3, 6))
    method(normal(3, 6))
    assert report(function).functions == report().functions
    assert len(report(function).functions) >= 2
    assert report(method).functions == report(module).functions
    with pytest.raises(og.ArgumentTypeError, match="report takes the module that was compiled.*got 'model'"):
        report("model")


def test_a_report_counts_what_runs_where():
    module = seeded(Odd)
    run = compiled(module)
    for _ in range(3):
        run(normal(3, 6)).sum().backward()
    module.eval()
    with torch.no_grad():
        run(normal(3, 6))
    for told in (report(module), report(run)):
        forward, backward, _ = told.functions
        assert [one.role for one in told.functions] == ["forward", "backward", "inference"]
        assert [one.calls for one in told.functions] == [3, 3, 1]
        assert {one.programs for one in told.functions} == {1}
        assert forward.torch_steps["aten.linalg_matrix_exp.default"] == 1
        assert forward.reasons["aten.linalg_matrix_exp.default"] == "it has no translation"
        assert forward.regions >= 2
        assert set(forward.ops) <= {"onednn", "numpy"}
        assert sum(forward.ops.values()) >= 3
        assert set(forward.seconds) >= {"regions", "aten.linalg_matrix_exp.default"}
        assert all(0 < seconds < 60 for seconds in forward.seconds.values())
        assert 0 < forward.compile_seconds < 120
        assert backward.torch_steps
    text = str(told).splitlines()
    assert re.fullmatch(r"forward: 1 program, compiled in \d+\.\d\d s; 3 calls of \d+\.\d\d ms", text[0])
    assert re.search(
        r"\d+\.\d\d ms +\d+%  torch: aten\.linalg_matrix_exp\.default ×1: it has no translation", str(told)
    )
    assert re.search(r"\d regions, ops: .*\d+ on (oneDNN|NumPy)", text[1] + text[2])


def test_a_report_tells_all_programs_and_only_of_its_model():
    module, other = seeded(lambda: nn.Linear(4, 3)), seeded(lambda: nn.Linear(5, 3))
    run = compiled(module, dynamic=True)
    with torch.no_grad():
        for batch in (6, 7, 8):
            run(normal(batch, 4))
        compiled(other)(normal(3, 5))
    assert [one.programs for one in report(module).functions] == [3]
    assert [one.programs for one in report(other).functions] == [1]
    assert len(report().functions) >= 2
    del module, other, run
    assert report(seeded(lambda: nn.Linear(4, 3))).functions == ()


def test_a_report_of_a_model_that_was_compiled_by_parts():
    module = seeded(lambda: nn.ModuleDict({"one": Odd(), "two": Odd(), "three": nn.Linear(2, 2)}))
    one, two = compiled(module["one"]), compiled(module["two"])
    one(normal(3, 6))
    two(normal(3, 6))
    parts = [report(module[part]).functions for part in ("one", "two")]
    assert all(
        any(told.role == "forward" for told in part) for part in parts
    )  # also where both share what is compiled
    assert {str(told) for told in report(module).functions} == {str(told) for part in parts for told in part}
    assert report(module["three"]).functions == ()


def test_a_report_has_torchs_graph_breaks():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.first(x).relu()
            torch._dynamo.graph_break()
            return self.last(x)

    module = seeded(Cut)
    compiled(module)(normal(3, 6))
    told = report(module)
    assert [one.role for one in told.functions].count("forward") == 2
    [(reason, count)] = told.graph_breaks.items()
    assert count == 1
    assert "graph_break" in reason or "graph break" in reason.lower()
    assert "graph break ×1: " in str(told)


def test_a_model_goes_on_after_an_error_in_a_step():
    table = seeded(lambda: nn.Embedding(4, 3))
    run = compiled(table)
    with torch.no_grad():
        right = run(torch.tensor([1, 2]))
        with pytest.raises((IndexError, ValueError), match="out of range|must be between"):
            run(torch.tensor([1, 9]))
        assert torch.equal(run(torch.tensor([1, 2])), right)


def test_an_error_in_the_backward_pass():
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no gradient today")

    linear = seeded(lambda: nn.Linear(4, 4))
    run = compiled(linear)
    with pytest.raises(ValueError, match="no gradient today"):
        Refusing.apply(run(normal(2, 4).requires_grad_())).sum().backward()
    run(normal(2, 4)).sum().backward()
    assert linear.weight.grad is not None


def test_the_backend_is_found_by_its_name():
    assert "onednn_graph" in torch._dynamo.list_backends()


def test_a_profile_shows_the_kernels_of_regions():
    compiled = torch.compile(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), backend="onednn_graph")
    with torch.no_grad():
        compiled(torch.ones(2, 8))
        with og.profile() as prof:
            compiled(torch.ones(2, 8))
    assert [line.calls for line in prof.partitions if "MatMul" in line.name] == [1]
