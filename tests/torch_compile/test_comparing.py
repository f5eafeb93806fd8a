"""The option `compare`: each region is held against torch, and the first that differs is named."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.graph.torch_compile.plan import regions  # noqa: E402
from onednn_graph.graph.torch_compile.run import steps  # noqa: E402
from onednn_graph.graph.torch_compile.run.comparing import Differences  # noqa: E402
from onednn_graph.torch import RegionDiffersWarning, report  # noqa: E402
from torch_compiled import Network, assert_near, assert_same_state, compiled, in_double, normal, seeded  # noqa: E402
from troubleshooting import check_quoted  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


class TwoRegions(nn.Module):
    """A product, an op that stays with torch, and another product."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.second(self.first(x).tanh().sort(-1).values)


def test_nothing_differs():
    module = seeded(Network)
    eager = seeded(Network).double()
    run = compiled(module, options={"compare": True})
    x = normal(4, 3, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegionDiffersWarning)
        run(x).square().mean().backward()
    eager(x.double()).square().mean().backward()
    assert_same_state(module, eager, 1e-4)
    assert not any(one.differing for one in report(module).functions)
    assert all(one.compared for one in report(module).functions)
    assert str(report(module)).count("compared with torch's, of which none differs") == 2


def test_times_are_without_comparisons(monkeypatch):
    clock = [0.0]
    settled = Differences.settled

    def slowly(*given):
        clock[0] += 1.0
        return settled(*given)

    monkeypatch.setattr(Differences, "settled", slowly)
    monkeypatch.setattr(steps, "perf_counter", lambda: clock[0])
    run = compiled(seeded(TwoRegions).eval(), options={"compare": True})
    with torch.no_grad():
        run(normal(3, 6))
        run(normal(3, 6))
    (function,) = report(run).functions
    assert clock[0] == 2.0 * function.regions
    assert function.seconds["regions"] == 0.0


def test_the_first_that_differs_is_named_and_torchs_is_used(monkeypatch):
    module = seeded(TwoRegions).eval()
    expected, exact = in_double(module, normal(3, 6))
    monkeypatch.setitem(regions.TABLE, "aten.tanh", regions.TABLE["aten.sigmoid"])
    run = compiled(module, options={"compare": True})
    with torch.no_grad():
        with pytest.warns(RegionDiffersWarning, match="tanh.* is the first result that differs") as said:
            assert_near(run(exact.float()), expected(exact))
        assert len(said) == 1
        check_quoted("RegionDiffersWarning", str(said[0].message))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RegionDiffersWarning)
            assert_near(run(exact.float()), expected(exact))
    (function,) = report(run).functions
    assert list(function.differing) == ["tanh"]
    assert "of which 1 differs" in str(report(run))
    assert "differs from torch's" in str(report(run))


@pytest.mark.parametrize("ours", [[1.0, float("nan")], [1.0, float("inf")], [1.0, 2.1]])
def test_a_distance(ours):
    """NaN and infinities are the same in the same places alone."""
    for wanted in ([1.0, float("nan")], [1.0, float("inf")], [1.0, 2.1]):
        differences, torchs = Differences(True), [torch.tensor(wanted)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RegionDiffersWarning)
            assert differences.settled(["x"], [], [torch.tensor(ours)], torchs, frozenset()) == torchs
        assert bool(differences.noted) == (str(wanted) != str(ours))
    integers = Differences(True)
    with pytest.warns(RegionDiffersWarning):
        integers.settled(["x"], [], [torch.tensor([3, 4])], [torch.tensor([3, 5])], frozenset())
