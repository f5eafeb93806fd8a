"""`from_torch(…, training=True)`: networks train as in torch, and their state goes back into the module."""

import copy
from functools import partial

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from training_modules import Language, MobileNet, ResNet, UNet, WithLoss  # noqa: E402 -- torch comes first

nn, functional = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")

STEPS = 10
RATE = 0.01
LOSS = 1e-6
"""Of a loss, relative."""
STEP = 1e-3
"""Of what a step changes, in norm."""
REACH = 1e-5
"""How far from a ReLU's kink the last bits of sums may carry its input, which is near 1 behind a normalisation."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def labels(*shape, below, seed=1):
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


def built(make):
    torch.manual_seed(0)
    return make()


def descended(module, inputs):
    """The graph of a module that returns its loss, and its compiled steps of gradient descent."""
    graph = og.from_torch(module, inputs, training=True)
    loss = graph.outputs[graph.output_names.index("output")]
    moved = {parameter.id for parameter, _ in graph.assignments}
    trained = [tensor for tensor in graph.parameter_tensors if tensor.id not in moved]
    rate = graph.constant(np.float32(RATE))
    for parameter, gradient in zip(trained, graph.gradients(loss, trained), strict=True):
        if gradient is not None:
            graph.assign(parameter, graph.subtract(parameter, graph.multiply(gradient, rate)))
    return graph, graph.compile()


def by_torch(module, inputs):
    """Losses and state in double precision."""
    module = copy.deepcopy(module).train().double()
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = module(*inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, module.state_dict()


def same_state(state, expected, tolerance):
    assert set(state) == set(expected)
    for key, want in expected.items():
        assert state[key].shape == tuple(want.shape), key
        want = want.double().numpy()
        scale = max(1e-2, np.abs(want).max(initial=0))
        np.testing.assert_allclose(state[key], want, rtol=0, atol=tolerance * scale, err_msg=key)


class Kinks(torch.overrides.TorchFunctionMode):
    """Has each ReLU's and ReLU6's kinks at other places: what lies at one of them goes one way or the other."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function not in (functional.relu, torch.relu, functional.relu6):
            return function(*args, **(kwargs or {}))
        x = args[0]
        x = torch.where(x > self.place, x, 0.0)
        return torch.where(x > 6 + self.place, 6.0, x) if function is functional.relu6 else x


def step_by_torch(module, state, inputs, kinks):
    """The loss, and the state after one step from a state, in double precision."""
    module = copy.deepcopy(module).train().double()
    module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in state.items()})
    with Kinks(kinks):
        loss = module(*(x.double() if x.is_floating_point() else x for x in inputs))
    loss.backward()
    torch.optim.SGD(module.parameters(), lr=RATE).step()
    return loss.item(), {key: value.double().numpy() for key, value in module.state_dict().items()}


def apart(a, b, keys):
    """How far two states are from each other, in norm."""
    return np.sqrt(sum(np.square(a[key] - b[key]).sum() for key in keys))


class Predicting(nn.Module):
    """Recurrent layers one behind the other."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.second = nn.GRU(12, 5, 2, bias=False)
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.second(self.first(x)[0])[0])


WITH_IMAGES = partial(WithLoss, loss=functional.cross_entropy)
NETWORKS = {
    "ResNet": (lambda: WITH_IMAGES(ResNet()), (normal(8, 3, 48, 48), labels(8, below=10))),
    "MobileNet": (lambda: WITH_IMAGES(MobileNet()), (normal(8, 3, 32, 32), labels(8, below=10))),
    "transformer": (Language, (labels(4, 12, below=23), labels(4, 12, below=23, seed=2))),
    "U-Net": (lambda: WITH_IMAGES(UNet()), (normal(2, 3, 16, 16), labels(2, 16, 16, below=3))),
    "regression": (
        lambda: WithLoss(UNet(), functional.mse_loss),
        (normal(2, 3, 16, 16), normal(2, 3, 16, 16, seed=1)),
    ),
    "recurrent": (
        lambda: WithLoss(Predicting(), functional.mse_loss),
        (normal(4, 6, 8), normal(4, 6, 3, seed=1)),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_ten_steps_are_those_of_torch(name):
    """Each from the state that the last one left: where the last bit decides at a kink, steps lead far apart."""
    make, inputs = NETWORKS[name]
    module = built(make)
    graph, model = descended(module, inputs)
    before = copy.deepcopy(module.state_dict())
    statistics = [key for key in before if "running" in key]
    weights = [key for key, value in before.items() if value.is_floating_point() and key not in statistics]
    losses = []
    for _ in range(STEPS):
        old = {key: np.array(value, np.float64) for key, value in graph.state.items()}
        losses.append(float(model(*inputs).only))
        (loss, state), (_, other) = (step_by_torch(module, old, inputs, kinks) for kinks in (-REACH, REACH))
        np.testing.assert_allclose(losses[-1], loss, rtol=LOSS, atol=REACH)
        rounding = np.finfo(np.float32).eps * apart(old, dict.fromkeys(weights, 0), weights)
        allowed = STEP * apart(state, old, weights) + rounding + apart(state, other, weights)
        assert apart(graph.state, state, weights) <= allowed
        for key in statistics:
            np.testing.assert_allclose(graph.state[key], state[key], rtol=1e-5, atol=1e-5, err_msg=key)
        for key in set(before) - {*statistics, *weights}:
            assert graph.state[key] == state[key], key
    assert losses[-1] < losses[0]
    for key, value in module.state_dict().items():  # the module stays as it was
        assert torch.equal(value, before[key]), key


# --- what is a parameter ---------------------------------------------------------------------------------


class Parts(nn.Module):
    """Tied, frozen and unused parameters; buffers of all kinds."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.frozen = nn.Linear(4, 4)
        self.frozen.requires_grad_(False)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.table.weight
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.tensor([1.0, 2, 3, 4]))
        self.register_buffer("hidden", torch.tensor(0.5), persistent=False)

    def forward(self, x):
        h = self.table(x).mean(1) * self.scale + self.hidden
        return self.head(self.norm(self.frozen(h))).square().mean()


TOKENS = torch.tensor([[0, 1, 2], [3, 4, 0], [1, 1, 3]])


def test_parameters_have_the_names_of_the_state_and_are_shared_as_there():
    module = built(Parts)
    graph, model = descended(module, (TOKENS,))
    assert set(graph.parameters) == {
        "table.weight",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
        "unused.weight",
        "unused.bias",
    }
    assert {"frozen.weight", "frozen.bias"} <= set(graph.constants)
    assert graph.input_names == ("x",)
    losses = [float(model(TOKENS).only) for _ in range(STEPS)]
    expected, state = by_torch(module, (TOKENS,))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    same_state(graph.state, state, 1e-5)
    np.testing.assert_array_equal(graph.state["head.weight"], graph.state["table.weight"])
    assert graph.state["norm.num_batches_tracked"] == STEPS
    np.testing.assert_array_equal(graph.state["frozen.weight"], module.frozen.weight.numpy())


def test_the_state_is_read_only():
    graph = og.from_torch(built(Parts), (TOKENS,), training=True)
    for array in graph.state.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_parameters_have_memory_of_their_own():
    module = built(Parts)
    graph = og.from_torch(module, (TOKENS,), training=True)
    graph.set_parameters({"norm.weight": np.full(4, 7, np.float32)})
    assert torch.equal(module.norm.weight, torch.ones(4))


def test_a_parameter_called_as_an_input():
    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.x = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.x

    graph = og.from_torch(Same(), (normal(3),), training=True)
    assert graph.input_names == ("x",)
    assert list(graph.state) == ["x"]
    assert len(graph.parameters) == 1


def test_without_training_all_is_constant():
    graph = og.from_torch(built(Parts), (TOKENS,))
    assert not graph.parameters
    assert not graph.assignments


# --- modes -----------------------------------------------------------------------------------------------


def test_parts_in_inference_mode_stay_so():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
    module[3].eval()
    modes = [part.training for part in module.modules()]
    graph = og.from_torch(module, (normal(2, 3, 4, 4),), training=True)
    kinds = [op.kind for op in graph.ops if "BatchNorm" in op.kind]
    assert kinds == ["BatchNormForwardTraining", "BatchNormInference"]
    assert {p.name for p, _ in graph.assignments} == {
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    }
    assert [part.training for part in module.modules()] == modes


def test_a_module_in_inference_mode_is_taken_as_in_training():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval()
    graph = og.from_torch(module, (normal(2, 3, 4, 4),), training=True)
    assert "BatchNormForwardTraining" in [op.kind for op in graph.ops]
    assert not any(part.training for part in module.modules())


def test_an_exported_program_in_training():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).train()
    x = normal(2, 3, 4, 4)
    program = torch.export.export(module, (x,))
    graph = og.from_torch(program, training=True)
    result = graph.compile()(x).only
    np.testing.assert_allclose(result, module(x).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(graph.state["1.running_var"], module[1].running_var.numpy(), rtol=1e-5)
    served = og.from_torch(program)  # what a call moves there is state, as in torch
    assert {"1.running_mean", "1.running_var"} <= {one.name for one in served.state_parameters}
    np.testing.assert_allclose(served.compile()(x).only, result, atol=1e-5)


# --- normalisation ---------------------------------------------------------------------------------------

NORMALISATIONS = {
    "momentum": nn.BatchNorm2d(4, momentum=0.3),
    "plain": nn.BatchNorm2d(4, affine=False),
    "no statistics": nn.BatchNorm2d(4, track_running_stats=False),
    "instances": nn.InstanceNorm2d(4, affine=True),
    "instances, statistics": nn.InstanceNorm2d(4, track_running_stats=True, momentum=0.2),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_normalisations(name):
    """The running variance is that of a sample in torch: of 6 elements it is 6/5 of the batch's own."""
    module = copy.deepcopy(NORMALISATIONS[name])
    graph = og.from_torch(module, (normal(2, 4, 3, 1),), training=True)
    model = graph.compile()
    for seed in range(3):
        x = 2 * normal(2, 4, 3, 1, seed=seed) + 1
        np.testing.assert_allclose(model(x).only, module(x).detach().numpy(), atol=1e-5)
    same_state(graph.state, module.state_dict(), 1e-6)


# --- what is dropped -------------------------------------------------------------------------------------


def seeded(module, x):
    """Values and gradients of a module that drops elements of x, as a function of the seed."""
    graph = og.from_torch(module, (x,), training=True)
    assert graph.input_names == ("input", "seed")
    assert not graph.outputs[1:]
    (gradient,) = graph.gradients(graph.outputs[0], [graph.inputs[0]], seed=1.0)
    model = graph.compile()

    def run(seed):
        results = model(x, np.int64(seed))
        return np.array(results["output"]), np.array(results[gradient])

    return run


def test_dropout_draws_by_the_seed_and_its_gradient_alike():
    x = torch.ones(64, 100)
    run = seeded(nn.Dropout(0.3), x)
    value, slope = run(1)
    assert set(np.unique(value).tolist()) == {0.0, float(np.float32(1 / 0.7))}
    assert abs((value == 0).mean() - 0.3) < 0.02  # 6,400 draws: three and a half standard deviations
    np.testing.assert_array_equal(slope, value)
    np.testing.assert_array_equal(run(1)[0], value)
    assert (run(2)[0] != value).mean() > 0.3


def test_each_dropout_draws_for_itself():
    class Two(nn.Module):
        def forward(self, x):
            return torch.stack([functional.dropout(x), functional.dropout(x)])

    first, second = (
        og.from_torch(Two(), (torch.ones(50, 50),), training=True)
        .compile()(torch.ones(50, 50), np.int64(3))
        .only
    )
    assert 0.45 < (first != second).mean() < 0.55


def test_channels_are_dropped_whole():
    value, slope = seeded(nn.Dropout2d(0.5), torch.ones(20, 30, 2, 2))(5)
    assert set(np.unique(value).tolist()) == {0.0, 2.0}
    assert (value == value[:, :, :1, :1]).all()
    assert 0.42 < (value == 0).mean() < 0.58
    np.testing.assert_array_equal(slope, value)


@pytest.mark.parametrize(
    ("module", "shape", "like"),
    [
        (nn.AlphaDropout(0.3), (300, 40), (300, 40)),
        (nn.FeatureAlphaDropout(0.25), (60, 70, 3), (60, 70, 1)),
    ],
)
def test_alpha_dropout_keeps_mean_and_variance(module, shape, like):
    x = normal(*shape)
    value, slope = seeded(module, x)(5)
    p, saturation = module.p, 1.7580993408473766
    factor = ((1 - p) * (1 + p * saturation**2)) ** -0.5
    kept = slope != 0
    assert (kept == np.broadcast_to(kept.reshape(*like, -1)[..., 0], shape)).all()
    assert abs(kept.mean() - 1 + p) < 0.03
    want = factor * np.where(kept, x.numpy(), -saturation) + factor * saturation * p
    np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(slope, factor * kept, rtol=1e-5)


def test_alpha_dropout_is_nothing_in_evaluation():
    module = nn.Sequential(nn.Linear(6, 4), nn.SELU(), nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.2))
    x = normal(5, 6)
    graph = og.from_torch(module, (x,), training=True)
    loss = og.training.mean_squared_error(graph, graph.outputs[0], graph.input("y", "f32", [5, 4]))
    trainer = og.training.Trainer(graph, loss, og.training.SGD(0.1))
    trainer.step({"input": x, "y": np.ones((5, 4), np.float32)})
    module.load_state_dict(trainer.export_state_dict())
    with torch.no_grad():
        expected = module.eval()(x).numpy()
    np.testing.assert_allclose(trainer.evaluate({"input": x})["output"], expected, rtol=1e-5, atol=1e-6)


def test_noise_that_is_no_dropout_can_not_be_evaluated():
    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            noise = torch.empty_like(x).bernoulli_(0.5)
            return (x * self.weight * (noise * 2) + (noise + 3)).sum()

    x = normal(5, 4)
    graph = og.from_torch(Noise(), (x,), training=True)
    trainer = og.training.Trainer(graph, graph.outputs[0], og.training.SGD(0.1))
    assert np.isfinite(trainer.step({"x": x}))
    with pytest.raises(og.UnsupportedError, match="has in training alone"):
        trainer.evaluate({"x": x})


def test_attention_drops_its_weights():
    class Attention(nn.Module):
        def forward(self, x):
            return functional.scaled_dot_product_attention(
                0 * x, 0 * x, torch.eye(8).expand(4, 8, 8), dropout_p=0.5
            )

    x = normal(4, 8, 8)
    value = og.from_torch(Attention(), (x,), training=True).compile()(x, np.int64(1)).only
    assert set(np.unique(value).tolist()) == {0.0, 0.25}  # 1/8, twice as much or nothing
    assert 0.38 < (value == 0).mean() < 0.62


def test_dropout_is_nothing_where_it_is_in_inference_mode():
    module = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
    module[1].eval()
    graph = og.from_torch(module, (normal(3, 4),), training=True)
    assert [op.kind for op in graph.ops] == ["ReLU"]
    assert graph.input_names == ("input",)


# --- with a trainer --------------------------------------------------------------------------------------


class Mixed(nn.Module):
    """All that training and inference differ in, tied and frozen parameters."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.channels = nn.Dropout2d(0.2)
        self.table = nn.Embedding(6, 6)
        self.out = nn.Linear(6, 6, bias=False)
        self.out.weight = self.table.weight
        self.drop = nn.Dropout(0.3)
        self.fixed = nn.Linear(6, 5)
        self.fixed.requires_grad_(False)

    def forward(self, x, tokens, y):
        h = self.channels(functional.relu(self.norm(self.conv(x)))).mean((2, 3)) + self.table(tokens)
        return functional.cross_entropy(self.fixed(self.drop(self.out(h))), y)


MIXED = {"x": normal(8, 3, 6, 6), "tokens": labels(8, below=6), "y": labels(8, below=5, seed=3)}


def test_a_trainer_seeds_what_is_dropped_evaluates_and_hands_the_state_back():
    module = built(Mixed)
    frozen = module.fixed.weight.clone()
    graph = og.from_torch(module, tuple(MIXED.values()), training=True)
    assert graph.input_names == (*MIXED, "seed")
    trainer = og.training.Trainer(graph, graph.outputs[0], og.training.SGD(0.1, momentum=0.9))
    losses = [trainer.step(MIXED) for _ in range(20)]
    assert losses[-1] < losses[0]
    state = trainer.export_state_dict()
    assert module.load_state_dict(state).missing_keys == []
    assert module.norm.num_batches_tracked == 20
    assert torch.equal(module.fixed.weight, frozen)
    assert module.out.weight is module.table.weight
    with torch.no_grad():
        expected = float(module.eval()(*MIXED.values()))
    assert float(trainer.evaluate(MIXED)["output"]) == pytest.approx(expected, rel=1e-5)
    before = {key: value.clone() for key, value in state.items()}
    trainer.step(MIXED)
    for key, value in state.items():  # what was exported stays
        assert torch.equal(value, before[key]), key


def test_graphs_of_open_sizes_share_their_parameters():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    x = normal(6, 3)
    whole = og.from_torch(module, (x,), training=True, dynamic_shapes=({0: torch.export.Dim("batch")},))
    six, two = (whole.with_shapes({"input": [size, 3]}) for size in (6, 2))
    loss = og.training.mean_squared_error(six, six.outputs[0], six.input("y", "f32", [6, 4]))
    og.training.Trainer(six, loss, og.training.SGD(0.5)).step({"input": x, "y": np.ones((6, 4), np.float32)})
    assert not np.array_equal(six.parameters["0.weight"], module[0].weight.detach())
    for later in (two, whole.with_shapes({"input": [9, 3]})):
        assert later.parameters.keys() == six.parameters.keys()
        for name, array in later.parameters.items():
            assert array.tobytes() == six.parameters[name].tobytes(), name
    with pytest.raises(og.GraphError, match=r"loss of OpenGraph.* as a function: .*give what adds the loss"):
        og.training.Trainer(whole, whole.outputs[0], og.training.SGD(0.5))


def test_types_of_an_exported_state():
    class Types(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("halves", torch.tensor([1.5, -2], dtype=torch.bfloat16))
            self.register_buffer("count", torch.tensor(3))

        def forward(self, x):
            return (x * self.weight).sum()

    module = Types()
    graph = og.from_torch(module, (normal(3),), training=True)
    state = og.training.Trainer(graph, graph.outputs[0], og.training.SGD(0.1)).export_state_dict()
    for key, want in module.state_dict().items():
        assert state[key].dtype == want.dtype, key
        assert torch.equal(state[key], want), key
