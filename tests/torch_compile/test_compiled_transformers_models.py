"""`torch.compile(model, backend="onednn_graph")`: networks of transformers, trained and evaluated."""

import importlib.util

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")
if importlib.util.find_spec("transformers") is None:
    pytest.skip("these tests need transformers; install the extra 'test-oracles'", allow_module_level=True)

from torch_agreement import agree, curve  # noqa: E402 -- torch comes first
from torch_zoo_transformers import CASES  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)
CURVES = ("bert", "llama")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _traced_anew():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def listed(precisions):
    """All models at all precisions, with a mark where continuous integration leaves them out."""
    return [
        pytest.param(
            case,
            precision,
            id=f"{case}-{precision}",
            marks=() if case.in_ci and precision in ("f32", "autocast") else pytest.mark.torch_models,
        )
        for case in CASES
        for precision in precisions
    ]


@pytest.mark.parametrize(("case", "precision"), listed(("f32", "bf16", "autocast")))
def test_a_step_and_an_evaluation_are_as_near_to_double_precision_as_eager_torch(case, precision):
    wrong, report = agree(case, precision)
    assert not wrong, "\n".join(map(str, wrong))
    assert bool(report.functions) == case.traced


@pytest.mark.parametrize("case", [case for case in CASES if case.name in CURVES], ids=str)
def test_ten_steps_descend_as_eager_torch_does(case):
    expected = curve(case, compiled=False)
    # Roundings grow from step to step, and do so in eager torch as well: the curve is held as one.
    assert curve(case, compiled=True) == pytest.approx(expected, rel=1e-3, abs=1e-3 * expected[0])
