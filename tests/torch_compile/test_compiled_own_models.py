"""`torch.compile(model, backend="onednn_graph")`: networks of torch alone, trained and evaluated."""

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from torch_agreement import assert_near_double, assert_same_curve, listed  # noqa: E402 -- torch comes first
from torch_zoo import CASES  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)
CURVES = ("mlp_mixer", "unet")


@pytest.mark.parametrize(("case", "precision"), listed(CASES))
def test_a_step_and_an_evaluation_are_as_near_to_double_precision_as_eager_torch(case, precision):
    assert_near_double(case, precision)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in CURVES], ids=str)
def test_ten_steps_descend_as_eager_torch_does(case):
    assert_same_curve(case)
