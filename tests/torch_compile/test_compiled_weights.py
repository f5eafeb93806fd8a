"""Weights change, are shared, saved and copied, and a compiled model goes along."""

import copy
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from torch_compiled import (  # noqa: E402 -- torch comes first
    Network,
    assert_near,
    assert_same_state,
    compiled,
    functions,
    in_double,
    normal,
    seeded,
    traced,
)

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


def by_optimizer(module, number):
    for one in module.parameters():
        one.grad = torch.full_like(one, 0.01 * (number + 1))
    torch.optim.SGD(module.parameters(), 1.0).step()


def by_load(module, number):
    state = module.state_dict()
    module.load_state_dict({k: v * 1.5 if v.is_floating_point() else v for k, v in state.items()})


def by_assigned_load(module, number):
    state = module.state_dict()
    module.load_state_dict(
        {k: v * 1.5 if v.is_floating_point() else v for k, v in state.items()}, assign=True
    )


def in_place(module, number):
    with torch.no_grad():
        for one in module.parameters():
            one.mul_(1.5)


def by_data(module, number):
    for one in module.parameters():
        one.data.copy_(one.data * 1.5)


def by_other_data(module, number):
    for one in module.parameters():
        one.data = one.data * 1.5


def by_detached(module, number):
    for one in module.parameters():
        one.detach().mul_(1.5)


def by_numpy(module, number):
    for one in module.parameters():
        array = one.detach().numpy()
        np.multiply(array, np.float32(1.5), out=array)


def by_vector(module, number):
    vector = nn.utils.parameters_to_vector(module.parameters()) * 1.5
    nn.utils.vector_to_parameters(vector.detach(), module.parameters())


def in_a_list(module, number):
    with torch.no_grad():
        torch._foreach_mul_(list(module.parameters()), 1.5)


def by_statistics(module, number):
    module.train()
    module(normal(4, 3, 8, 8, seed=number) + number)
    module.eval()


def by_new_parameters(module, number):
    for layer in (module.first, module.second, module.last):
        layer.weight = nn.Parameter(layer.weight.detach() * 1.5)


CHANGES = [
    by_optimizer, by_load, by_assigned_load, in_place, by_data, by_other_data, by_detached, by_numpy, by_vector,
    in_a_list, by_statistics, by_new_parameters,
]  # fmt: skip


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_in_inference(change, mode):
    module = seeded(lambda: Network(channels=48)).eval()
    run = compiled(module)
    x = normal(2, 3, 8, 8)
    before = None
    for number in range(5):  # memory that was freed comes back after two or three
        with mode():
            made = run(x)
        expected, exact = in_double(module, x)
        assert_near(made, expected(exact))
        assert before is None or not torch.equal(made, before)
        before = made
        change(module, number)


@pytest.mark.parametrize("training", [False, True])
def test_weights_are_swapped_for_others(training):
    """`torch.utils.swap_tensors` takes no tensor that somebody holds a weak reference of."""
    from onednn_graph.torch import report

    module = seeded(lambda: nn.Sequential(nn.Linear(24, 16), nn.GELU(), nn.Linear(16, 8)))
    run = compiled(module)
    x = normal(4, 24)
    for number in range(3):
        if training:
            run(x).square().mean().backward()
            module.zero_grad(set_to_none=True)
        else:
            with torch.no_grad():
                run(x)
        for one in module.parameters():
            torch.utils.swap_tensors(one, nn.Parameter(normal(*one.shape, seed=number + 1)))
        with torch.set_grad_enabled(training):
            made = run(x)
        expected, exact = in_double(module, x)
        assert_near(made, expected(exact))
        assert report(run).functions


def test_one_element_changes_where_torch_counts():
    module = seeded(lambda: nn.Linear(256, 256)).eval()
    run = compiled(module)
    x = normal(2, 256)
    with torch.no_grad():
        run(x)
        module.weight[17, 33] += 100
        expected, exact = in_double(module, x)
        assert_near(run(x), expected(exact))


def test_a_change_that_torch_does_not_count_is_counted_by_hand():
    module = seeded(lambda: nn.Linear(256, 256)).eval()
    run = compiled(module)
    x = normal(2, 256)
    with torch.no_grad():
        run(x)
        module.weight.data[17, 33] += 100
        torch.autograd.graph.increment_version(module.weight)
        expected, exact = in_double(module, x)
        assert_near(run(x), expected(exact))


def pruned(module):
    """Every hundredth weight of a layer is 0, which torch does not count and samples may miss."""
    weight = module.weight.data.view(-1)
    weight[torch.randperm(len(weight), generator=torch.Generator().manual_seed(3))[: len(weight) // 100]] = 0


def by_swapped_rows(module):
    """The same numbers in other places."""
    rows = module.weight.detach().numpy()
    rows[[17, 33]] = rows[[33, 17]]


def by_one_sign(module):
    module.weight.data[101, 7].neg_()


@pytest.mark.parametrize("change", [pruned, by_swapped_rows, by_one_sign])
def test_few_elements_change_behind_torchs_back(change, monkeypatch):
    """They are seen when every piece was looked at, of which each call after a pause does one at least."""
    from onednn_graph.graph.torch_compile.run import weights
    from onednn_graph.graph.torch_compile.run.weights import PIECE

    monkeypatch.setattr(weights, "PAUSE", 0.0)

    module = seeded(lambda: nn.Linear(256, 256)).eval()
    run = compiled(module)
    x = normal(2, 256)
    with torch.no_grad():
        run(x)
        change(module)
        expected, exact = in_double(module, x)
        for _ in range(256 * 256 * 4 // PIECE + 2):
            made = run(x)
        assert_near(made, expected(exact))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("change", [pruned, by_swapped_rows, by_one_sign])
def test_few_elements_change_and_somebody_says_so(change, whole, monkeypatch):
    from onednn_graph.graph.torch_compile.run.weights import _Set
    from onednn_graph.torch import refresh

    monkeypatch.setattr(_Set, "is_fresh", lambda *given: True)
    module, other = (seeded(lambda: nn.Linear(256, 256)).eval() for _ in range(2))
    run = compiled(module)
    x = normal(2, 256)
    with torch.no_grad():
        before = run(x)
        change(module)
        refresh(other)
        assert torch.equal(run(x), before)
        refresh(None if whole else run)
        expected, exact = in_double(module, x)
        assert_near(run(x), expected(exact))


def test_weights_in_a_file_that_is_mapped(tmp_path, monkeypatch):
    """Another writer changes the file, and with it the memory of the weights."""
    from onednn_graph.graph.torch_compile.run import weights

    monkeypatch.setattr(weights, "PAUSE", 0.0)
    module = seeded(lambda: nn.Linear(256, 256)).eval()
    path = tmp_path / "weights"
    path.write_bytes(module.weight.detach().numpy().tobytes())
    mapped = torch.from_file(str(path), shared=True, size=256 * 256).view(256, 256)
    module.weight = nn.Parameter(mapped)
    run = compiled(module)
    x = normal(2, 256)
    with torch.no_grad():
        run(x)
        np.memmap(path, np.float32, "r+", shape=(256, 256))[5, 6:9] += 100
        expected, exact = in_double(module, x)
        for _ in range(20):
            made = run(x)
        assert_near(made, expected(exact))


def test_weights_are_packed_once_while_they_stay(monkeypatch):
    from onednn_graph.graph.torch_compile.run.weights import Weights

    module = seeded(Network).eval()
    run = compiled(module)
    x = normal(2, 3, 8, 8)
    kept = []
    of = Weights.of
    monkeypatch.setattr(Weights, "of", lambda *given: kept.append(of(*given)) or kept[-1])
    with torch.no_grad():
        for _ in range(3):
            run(x)
        module.last.weight.mul_(2)
        run(x)
    first, after_the_change = kept
    assert after_the_change is not first


def test_freed_weights_are_not_kept():
    module = seeded(Network).eval()
    run = compiled(module)
    x = normal(2, 3, 8, 8)
    with torch.no_grad():
        for number in range(6):
            run(x)
            by_other_data(module, number)
        run(x)
    [function] = functions(module)
    [program] = function.programs.values()
    assert sum(len(step.weights) for step in program.steps if hasattr(step, "region")) <= 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.linear(x))


class Deep(nn.Module):
    """Layers of one kind, each compiled by itself."""

    def __init__(self, layers, compiler):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        for layer in self.layers:
            compiler(layer)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_of_one_kind_share_what_is_compiled():
    module = seeded(lambda: Deep(6, lambda layer: layer.compile(backend="onednn_graph")))
    expected = seeded(lambda: Deep(6, lambda layer: None)).double()
    x = normal(3, 8).requires_grad_()
    module(x).square().mean().backward()
    expected(x.double()).square().mean().backward()
    assert_same_state(module, expected)
    assert traced() == 1
    assert sorted(one.role for one in functions(module)) == ["backward", "forward"]
    x = x.detach()
    with torch.no_grad():
        for _ in range(3):
            assert_near(module(x), expected(x.double()))
    assert traced() == 2


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
            self.out.weight = self.words.weight

        def forward(self, x):
            return self.out(self.words(x).tanh())

    module = seeded(Tied)
    expected = copy.deepcopy(module).double()
    x = torch.arange(12).reshape(3, 4)
    run = compiled(module)
    run(x).square().mean().backward()
    expected(x).square().mean().backward()
    assert_same_state(module, expected)
    with torch.no_grad():
        run(x)
        module.out.weight.mul_(2)
        assert_near(run(x), copy.deepcopy(module).double()(x))


def test_buffers_that_a_model_writes_to():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            y = self.linear(x)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
                self.calls += 1
            return y - self.mean

    module = seeded(Counting)
    expected, x = in_double(module, normal(3, 4))
    run = compiled(module)
    for mode in (torch.enable_grad, torch.no_grad, torch.enable_grad):
        with mode():
            assert_near(run(x.float()), expected(x))
    assert module.calls == 3
    assert_near(module.mean, expected.mean)


def test_a_state_goes_through_a_file():
    module = seeded(Network)
    run = compiled(module)
    x = normal(4, 3, 8, 8)
    run(x).sum().backward()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other = Network()
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(compiled(other.eval())(x), compiled(module.eval())(x))


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "save"])
def test_a_compiled_module_is_copied(way):
    module = seeded(Network)
    run = compiled(module)
    x = normal(4, 3, 8, 8)
    run(x).sum().backward()
    if way == "deepcopy":
        other = copy.deepcopy(run)
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(run))
    else:
        file = io.BytesIO()
        torch.save(run, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    assert torch.equal(other(x), run(x))
    with torch.no_grad():
        for one in other.parameters():
            one.zero_()
    assert other(x).abs().max() == 0
    assert run(x).abs().max() > 0
