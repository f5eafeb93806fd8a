"""Whatever fails of ours, torch does it: one warning, a line in the report, and torch's results."""

import gc
import warnings

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")


from onednn_graph.graph.importing.translation import FAILURES  # noqa: E402
from onednn_graph.graph.torch_compile import backend  # noqa: E402
from onednn_graph.graph.torch_compile.plan import joint, planner, regions, slots  # noqa: E402
from onednn_graph.graph.torch_compile.run import region, steps  # noqa: E402
from onednn_graph.torch import HandedToTorchWarning, report  # noqa: E402
from torch_compiled import Network, assert_near, assert_same_state, in_double, normal, seeded  # noqa: E402
from troubleshooting import check_quoted  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


class UnheardOfError(Exception):
    """None of those that we know."""


def failing(kind):
    def fail(*given, **more):
        raise kind("something is the matter")

    return fail


PLACES = {
    "reading uses": (backend, "_uses"),
    "noting weights": (backend.CompiledFunction, "_note"),
    "finding the program": (backend.CompiledFunction, "_planned"),
    "giving slots": (planner.Planner, "steps"),
    "preparing torch's part": (regions, "ByTorch"),
    "laying out inputs": (steps.Taken, "fitted"),
    "making outputs": (steps.RegionOutput, "tensor"),
    "translating": (regions.Regions, "check"),
    "planning": (planner.Planner, "described"),
    "recognising": (regions, "recognise"),
    "compiling": (regions, "Region"),
    "dividing": (region, "program"),
    "building": (region.Region, "_section"),
    "preparing": (region.Region, "prepare"),
    "running": (region.Region, "run"),
}
KINDS = [
    og.ShapeError,
    UnheardOfError,
    *(
        pytest.param(one, marks=pytest.mark.long)
        for one in (og.UnsupportedError, og.errors.LibraryError, MemoryError)
    ),
]


class Dropping(nn.Module):
    """A mask that torch draws, views, several results of one op, and a constant."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 12), nn.LayerNorm(12), nn.Linear(12, 4)

    def forward(self, x):
        x = self.norm(self.first(x)).reshape(-1, 3, 4).transpose(1, 2).flatten(1)
        one, two = torch.nn.functional.dropout(x, 0.25, self.training).chunk(2, dim=1)
        x = torch.cat([one * torch.tensor(2.0), two.sigmoid()], 1)
        return self.last(x), one.softmax(-1)


def lenient(function):
    return torch.compile(function, backend="onednn_graph")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_torch_does_what_fails_in_inference(place, kind, monkeypatch):
    module = seeded(Network).eval()
    expected, exact = in_double(module, normal(2, 3, 8, 8))
    monkeypatch.setattr(*PLACES[place], failing(kind))
    run = lenient(module)
    with torch.no_grad():
        refusal = place == "translating" and kind is not UnheardOfError and issubclass(kind, FAILURES)
        if refusal:
            made = run(exact.float())
        else:
            with pytest.warns(HandedToTorchWarning, match="something is the matter") as warned:
                made = run(exact.float())
            assert len(warned) == 1
            check_quoted("HandedToTorchWarning", str(warned[0].message))
        assert_near(made, expected(exact))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_near(run(exact.float()), expected(exact))
    if not refusal:
        (function,) = report(run).functions
        assert any("something is the matter" in reason for reason in function.handed)
        assert "handed to torch" in str(report(run))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [Network, Dropping])
def test_torch_does_what_fails_in_training(place, make, monkeypatch):
    module = seeded(make)
    # In double precision where no random numbers are drawn, which it has others of.
    eager, precision = (
        (seeded(make).double(), torch.float64) if make is Network else (seeded(make), torch.float32)
    )
    x = normal(4, 3, 8, 8) if make is Network else normal(4, 8)
    monkeypatch.setattr(*PLACES[place], failing(RuntimeError))
    run = lenient(module)
    for step in range(2):
        for call in (run, eager):
            torch.manual_seed(step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HandedToTorchWarning)
                made = call(x.to(precision) if call is eager else x)
                results = made if isinstance(made, tuple) else (made,)
                sum(one.square().mean() for one in results).backward()
    assert_same_state(module, eager, 1e-4)


def test_a_region_fails_at_a_later_call(monkeypatch):
    """And what the region before it makes is what torch goes on with."""
    module = seeded(Dropping)
    eager = seeded(Dropping)
    run, x = lenient(module), normal(4, 8)
    for step in range(4):
        if step == 2:
            monkeypatch.setattr(region.Region, "run", failing(og.errors.LibraryError))
        for call in (run, eager):
            torch.manual_seed(step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HandedToTorchWarning)
                made, share = call(x)
                (made.square().mean() + share[:, 0].mean()).backward()
    assert_same_state(module, eager, 1e-4)
    assert all(one.handed for one in report(module).functions)


@pytest.mark.parametrize("place", sorted(PLACES.keys() - {"translating"}))
def test_strict_raises(place, monkeypatch):
    monkeypatch.setattr(*PLACES[place], failing(UnheardOfError))
    run = torch.compile(seeded(Network).eval(), backend="onednn_graph", options={"strict": True})
    with torch.no_grad(), pytest.raises(Exception, match="something is the matter"):
        run(normal(2, 3, 8, 8))


def test_what_is_wrong_in_the_users_data_is_torchs_error():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(10, 4)

        def forward(self, x):
            return self.words(x).tanh()

    module = seeded(Words)
    run = lenient(module)
    with torch.no_grad():
        assert_near(run(torch.tensor([3, 4])), module.double()(torch.tensor([3, 4])).float())
        with pytest.raises(IndexError):
            run(torch.tensor([3, 40]))
        assert run(torch.tensor([3, 4])).shape == (2, 4)
    gc.collect()
    assert not any(one.handed for one in report(module).functions)


TRACING = {
    "tracing": (backend, "resizings_whole"),
    "simplifying": (joint, "simplified"),
    "autocast": (backend, "with_autocast"),
}


@pytest.mark.parametrize("place", TRACING)
def test_torch_does_what_fails_while_it_traces(place, monkeypatch):
    module, eager = seeded(Network), seeded(Network).double()
    monkeypatch.setattr(*TRACING[place], failing(UnheardOfError))
    precision = "bf16" if place == "autocast" else "f32"
    run = torch.compile(module, backend="onednn_graph", options={"precision": precision})
    x = normal(4, 3, 8, 8)
    with pytest.warns(HandedToTorchWarning, match="something is the matter"):
        run(x).square().mean().backward()
    eager(x.double()).square().mean().backward()
    assert_same_state(module, eager, 1e-4)
    strict = torch.compile(
        seeded(Network), backend="onednn_graph", options={"precision": precision, "strict": True}
    )
    with pytest.raises(Exception, match="something is the matter"):
        strict(x).square().mean().backward()


class Doubling(nn.Module):
    """Random numbers, and then an op that stays with torch; on request, an argument is written before."""

    def __init__(self, *, writes=False):
        super().__init__()
        self.writes = writes
        self.words = nn.Embedding(10, 6)

    def forward(self, x, numbers):
        if self.writes:
            x.mul_(2)
        return torch.nn.functional.dropout(x.tanh(), 0.5) + self.words(numbers)


def planned_wrong(monkeypatch):
    """Has torch be called with another argument for words than was planned, as long as a list says so."""
    right, wrong = slots.Slots.arguments, [True]

    def arguments(self, node):
        args, kwargs = right(self, node)
        if wrong and "embedding" in str(node.target):
            args = (args[0], None, *args[2:])
        return args, kwargs

    monkeypatch.setattr(slots.Slots, "arguments", arguments)
    return wrong


@pytest.mark.parametrize("grad", [False, True])
def test_a_call_of_torch_that_was_planned_wrong(grad, monkeypatch):
    """And random numbers are those that eager torch draws."""
    planned_wrong(monkeypatch)
    module, numbers = seeded(Doubling), torch.tensor([3, 4, 5, 6])
    run, x = lenient(module), normal(4, 6)
    with torch.set_grad_enabled(grad):
        torch.manual_seed(3)
        with pytest.warns(HandedToTorchWarning, match="a step that torch was to do"):
            made = [run(x, numbers)]
        made.append(run(x, numbers))
        torch.manual_seed(3)
        for one in made:
            torch.testing.assert_close(one, module(x, numbers))
    (function, *_) = report(run).functions
    assert function.handed


def test_what_was_written_is_not_written_twice(monkeypatch):
    """An argument that is written first is as eager torch leaves it, whatever fails behind it."""
    module, numbers = seeded(lambda: Doubling(writes=True)), torch.tensor([3, 4, 5, 6])
    for place, name in ((region.Region, "run"), (slots.Slots, "arguments")):
        torch._dynamo.reset()
        with monkeypatch.context() as patch, torch.no_grad():
            if name == "run":
                patch.setattr(place, name, failing(UnheardOfError))
            else:
                planned_wrong(patch)
            x, other = normal(4, 6), normal(4, 6)
            torch.manual_seed(3)
            with pytest.warns(HandedToTorchWarning):
                made = lenient(module)(x, numbers)
            torch.manual_seed(3)
            torch.testing.assert_close(made, module(other, numbers))
            torch.testing.assert_close(x, other)


@pytest.mark.parametrize("place", ["planning", "compiling", "running"])
def test_an_interruption_ends_the_call_and_no_more(place, monkeypatch):
    module = seeded(Network).eval()
    expected, exact = in_double(module, normal(2, 3, 8, 8))
    run = lenient(module)
    with torch.no_grad():
        with monkeypatch.context() as patch:
            patch.setattr(*PLACES[place], failing(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                run(exact.float())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_near(run(exact.float()), expected(exact))
    assert not any(one.handed for one in report(module).functions)


def test_a_sparse_parameter():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.eye(4).to_sparse(), requires_grad=False)
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            return self.last(torch.sparse.mm(self.weight, x).tanh())

    module, x = seeded(Sparse), normal(4, 4)
    run = torch.compile(module, backend="onednn_graph", options={"strict": True})
    with torch.no_grad():
        assert_near(run(x), module(x).double())
    assert "nothing was compiled" in str(report(module))  # torch traces none of it


class Statistics(nn.Module):
    """Saved data of a convolution may lie channels last; the statistics of its normalisation may not."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.first(x)).tanh()


@pytest.mark.parametrize("role", ["forward", "backward"])
def test_one_pass_by_a_region_and_the_other_by_torch(role, monkeypatch):
    """What one of them saves is what the other takes."""
    right = region.Region.run
    backward = []

    def run(self, *given):
        if bool(backward) == (role == "backward"):
            raise UnheardOfError("something is the matter")
        return right(self, *given)

    monkeypatch.setattr(region.Region, "run", run)
    cases = (
        (Statistics, normal(2, 3, 5, 8)),
        (Network, normal(4, 3, 8, 8)),
    )
    for make, x in cases:
        torch._dynamo.reset()
        module, eager = seeded(make), seeded(make).double()
        backward.clear()
        loss = torch.compile(module, backend="onednn_graph")(x).square().mean()
        backward.append(True)
        with pytest.warns(HandedToTorchWarning) if role == "backward" else warnings.catch_warnings():
            loss.backward()
        eager(x.double()).square().mean().backward()
        assert_same_state(module, eager, 1e-4)


class Groups(nn.Module):
    """Torch's gradient of a group norm takes its two tensors to lie alike."""

    def __init__(self, convolution):
        super().__init__()
        self.first, self.norm = convolution(3, 4, 1, bias=False), nn.GroupNorm(2, 4)

    def forward(self, x):
        return self.norm(self.first(x)).square()


def _refused(self, node, *given, right=regions.Regions.translated):
    return "it is refused" if "group_norm_backward" in str(node.target) else right(self, node, *given)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        (region.Region, "run", failing(RuntimeError)),
        (planner.Planner, "described", failing(RuntimeError)),
        (backend.CompiledFunction, "_planned", failing(RuntimeError)),
        (regions.Regions, "translated", _refused),
    ],
    ids=["running", "planning", "finding the program", "translating"],
)
@pytest.mark.parametrize(("convolution", "shape"), [(nn.Conv2d, (2, 3, 5, 6)), (nn.Conv3d, (2, 3, 4, 5, 6))])
def test_torch_gets_what_was_saved_as_it_has_traced_it(convolution, shape, place, dynamic, monkeypatch):
    """Forward saves channels last what torch's kernels, which do not look at strides, count on to lie as traced."""
    module, eager = (seeded(lambda: Groups(convolution)) for _ in range(2))
    eager.double()
    x, exact = normal(*shape).requires_grad_(), normal(*shape).double().requires_grad_()
    ways = normal(shape[0], 4, *shape[2:], seed=1)
    loss = (torch.compile(module, backend="onednn_graph", dynamic=dynamic)(x) * ways).sum()
    monkeypatch.setattr(*place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HandedToTorchWarning)
        loss.backward()
    (eager(exact) * ways).sum().backward()
    assert_near(x.grad, exact.grad)
    assert_same_state(module, eager, 1e-4)


class Restrided(nn.Module):
    """Looks at what a convolution makes by strides of its own, and saves it."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 1, bias=False)

    def forward(self, x):
        y = self.first(x)
        return y.as_strided((2, 120), (120, 1)).sin() * y.square().flatten(1)


@pytest.mark.parametrize("role", ["forward", "backward"])
def test_as_strided_of_what_is_saved(role, monkeypatch):
    module, eager = seeded(Restrided), seeded(Restrided).double()
    x = normal(2, 3, 5, 6)
    run = torch.compile(module, backend="onednn_graph")
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", HandedToTorchWarning)
        if role == "forward":
            patch.setattr(region.Region, "run", failing(RuntimeError))
        made = run(x)
        patch.setattr(region.Region, "run", failing(RuntimeError))
        made.square().sum().backward()
    expected = eager(x.double())
    assert_near(made, expected)
    expected.square().sum().backward()
    assert_same_state(module, eager, 1e-4)


def test_a_copy_of_a_result_lies_as_it_was_traced():
    """The gradient is copied to where its strides are others, and written to by these."""

    def attended(x):
        y = (x.transpose(0, 1).contiguous() * 2).transpose(0, 1).clone()
        y.as_strided((8,), (1,)).mul_(0.5)
        q, k, v = (one.reshape(2, 4, 1, 1).transpose(1, 2) for one in (y, x, y))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    run, x = torch.compile(attended, backend="onednn_graph", options={"strict": True}), normal(2, 4, 1)
    ours, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    run(ours).sum().backward()
    attended(exact).sum().backward()
    assert_near(ours.grad, exact.grad)
