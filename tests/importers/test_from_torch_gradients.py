"""`from_torch(…, training=True)`: gradients end where they do in torch, and what an export loses is refused by name."""

import copy

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

nn, functional = torch.nn, torch.nn.functional
checkpoint = torch.utils.checkpoint.checkpoint
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:The tensor attribute self.a.weight was assigned:UserWarning"),
]


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Layers(nn.Module):
    """Layers a and b, a buffer, and a loss that a function makes of these and of the inputs."""

    def __init__(self, loss, a=None, b=None, **buffers):
        super().__init__()
        self.a = nn.Linear(4, 4) if a is None else a
        self.b = nn.Linear(4, 4) if b is None else b
        self.loss = loss
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.loss(self, *inputs)


def simsiam(m, x, y):
    def half(p, z):
        return -functional.cosine_similarity(p, z.detach(), dim=-1).mean()

    first, second = m.a(x), m.a(y)
    return (half(m.b(first), second) + half(m.b(second), first)) / 2


class Codebook(nn.Module):
    """VQ-VAE: the nearest of eight codes, straight through; codes and encoder are drawn together."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder, self.codes = nn.Linear(4, 3), nn.Linear(3, 4), nn.Embedding(8, 3)

    def forward(self, x, y):
        z = self.encoder(x)
        apart = (z.unsqueeze(1) - self.codes.weight).square().sum(-1)
        q = self.codes(apart.argmin(1))
        near = functional.mse_loss(q, z.detach()) + 0.25 * functional.mse_loss(z, q.detach())
        return functional.mse_loss(self.decoder(z + (q - z).detach()), y) + near


class Teacher(nn.Module):
    """BYOL: a teacher without gradients, and its moving average in forward."""

    def __init__(self):
        super().__init__()
        self.student, self.predictor = nn.Linear(4, 4), nn.Linear(4, 4)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, x, y):
        with torch.no_grad():
            for mean, now in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                mean.mul_(0.9).add_(now, alpha=0.1)
            wanted = functional.normalize(self.teacher(y), dim=-1)
        return (
            (functional.normalize(self.predictor(self.student(x)), dim=-1) - wanted).square().sum(-1).mean()
        )


class Queue(nn.Module):
    """MoCo: keys by another encoder, which has gradients of its own elsewhere, against a queue."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("queue", functional.normalize(normal(4, 6, seed=3), dim=0))

    @torch.no_grad()
    def keys(self, y):
        return functional.normalize(self.k(y), dim=1)

    def forward(self, x, y):
        q, k = functional.normalize(self.q(x), dim=1), self.keys(y)
        scores = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().detach()], 1) / 0.2
        return (
            functional.cross_entropy(scores, torch.zeros(len(x), dtype=torch.long))
            + self.k(x).square().mean()
        )


class Unrolled(nn.Module):
    """A recurrent cell whose state is cut off every second step."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x, y):
        h = torch.zeros_like(x)
        total = 0
        for step in range(6):
            h = self.cell(x * (step + 1), h)
            total = total + functional.mse_loss(h, y)
            if step % 2:
                h = h.detach()
        return total


def attention(m, x, y):
    weights = torch.softmax(m.a(x) @ m.b(y).T, -1)
    return (weights.detach() @ m.b(x) * m.a(y)).sum() + (weights @ y).square().mean()


def moving(m, x, y):
    """An average of what gradients flow through, which is read in the same step."""
    out = m.a(x)
    with torch.no_grad():
        m.mean.mul_(0.9).add_(out.mean(0), alpha=0.1)
    return ((out - m.mean) * m.b(y)).square().mean()


def switched(m, x, y):
    """Blocks of all kinds, one in another."""
    out = m.a(x)
    with torch.set_grad_enabled(False):
        scale = out.abs().mean()
        with torch.enable_grad():
            inner = m.b(out) * scale
        shift = inner.mean(0)
    return ((inner - shift) * scale * y).square().mean()


def cut_in_place(m, x, y):
    out = m.a(x)
    total = out + m.b(x)
    out.detach_()
    return (out * total * y).mean()


def penalty(m, x, y):
    (slope,) = torch.autograd.grad((x * m.a.bias).square().sum(), m.a.bias, create_graph=True)
    return (slope.norm() - 1).square() + (m.b(slope.detach()) * y).sum()


def cast(m, x, y):
    """What an autocast block has inside ends too."""
    with torch.autocast("cpu", enabled=False):
        out = m.a(x)
        wanted = m.b(out).detach()
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        scale = out.abs().mean()
    return ((out - wanted) * scale * y).square().mean()


def guarded(m, x, y):
    """The trick with two wheres that keeps NaN out of gradients."""
    out = m.a(x)
    safe = torch.where(out > 0, out, torch.ones_like(out))
    return torch.where(out > 0, safe.log() * safe.sqrt(), torch.zeros_like(out)).sum() + m.b(y).square().sum()


def frozen_norm():
    norm = nn.BatchNorm1d(4)
    norm.running_mean.copy_(normal(4, seed=5))
    norm.running_var.copy_(normal(4, seed=6).exp())
    return norm.eval()


def tied():
    module = Layers(lambda m, x, y: (m.b(torch.tanh(m.a(x))) - m.a(y).detach()).square().mean())
    module.b.weight = module.a.weight
    return module


def partly_frozen():
    module = Layers(lambda m, x, y: (m.b(torch.tanh(m.a(x))) - y).square().mean())
    module.a.weight.requires_grad_(False)
    module.b.bias.requires_grad_(False)
    return module


def of(loss, **parts):
    return lambda: Layers(loss, **{name: make() for name, make in parts.items()})


def composed(m, x, y):
    return (m.b(torch.tanh(m.a(x))) - y).square().mean()


def linear(norm):
    return lambda: norm(nn.Linear(4, 4))


MODULES = {
    "SimSiam": of(simsiam),
    "VQ-VAE": Codebook,
    "straight through": of(lambda m, x, y: (m.b((r := m.a(x)) + (r.round() - r).detach()) * y).sum()),
    "BYOL": Teacher,
    "MoCo": Queue,
    "truncated backpropagation": Unrolled,
    "attention": of(attention),
    "moving average": of(moving, mean=lambda: torch.zeros(4)),
    "blocks in blocks": of(switched),
    "detach in place": of(cut_in_place),
    "gradient penalty": of(penalty),
    "autocast": of(cast),
    "where": of(guarded),
    "spectral norm": of(composed, a=linear(nn.utils.parametrizations.spectral_norm)),
    "spectral norm, once": of(composed, a=linear(nn.utils.spectral_norm)),
    "weight norm": of(composed, a=linear(nn.utils.parametrizations.weight_norm)),
    "checkpoint": of(lambda m, x, y: (m.b(checkpoint(m.a, x, use_reentrant=False)) * y).sum()),
    "dropout that is off": of(
        lambda m, x, y: (m.b(functional.dropout(m.a(x), 0.5, training=False)) * y).square().mean()
    ),
    "BatchNorm": of(composed, b=lambda: nn.BatchNorm1d(4)),
    "BatchNorm, frozen": of(composed, b=frozen_norm),
    "BatchNorm without state": of(
        lambda m, x, y: (functional.batch_norm(m.a(x), None, None, training=True) * m.b(y)).square().mean()
    ),
    "tied": tied,
    "partly frozen": partly_frozen,
    "detached weights": of(
        lambda m, x, y: (functional.linear(m.a(x), m.b.weight.detach()) * m.b(y)).square().mean()
    ),
    "detached integers": of(lambda m, x, y: (m.a(x)[m.b(y).argmax(1).detach()] * y).sum()),
    "through an ellipsis": of(lambda m, x, y: (m.a(x)[...] * m.b(y)).sum()),
}
INPUTS = (normal(5, 4), normal(5, 4, seed=1))


def differentiated(module, inputs):
    """Gradients of all parameters and the state behind a step, of the graph, by each backend."""
    graph = og.from_torch(module, inputs, training=True)
    moved = {parameter.id for parameter, _ in graph.assignments}
    trained = [t for t in graph.parameter_tensors if t.id not in moved]
    found = graph.gradients(graph.outputs[graph.output_names.index("output")], trained)
    for backend in ("numpy", None):
        ready = copy.deepcopy(graph)
        results = ready.compile(backend=backend)(*inputs)
        gradients = {
            t.name: None if one is None else results[one] for t, one in zip(trained, found, strict=True)
        }
        yield gradients, ready.state


def by_torch(module, inputs):
    """The same in double precision."""
    module = copy.deepcopy(module).double()
    module(*[x.double() if x.is_floating_point() else x for x in inputs]).backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.requires_grad}
    return gradients, module.state_dict()


def same(have, want):
    np.testing.assert_allclose(have, want.numpy(), rtol=0, atol=2e-5 * max(1, float(want.abs().max())))


def check(module, inputs):
    expected, state_then = by_torch(module, inputs)
    for gradients, state in differentiated(module, inputs):
        assert set(gradients) == set(expected)
        for name, want in expected.items():
            have = gradients[name]
            if want is None or have is None:  # None stands for zeros
                assert want is None or not want.any(), name
                assert have is None or not have.any(), name
            else:
                same(have, want.to_dense())
        for name, want in state_then.items():
            same(state[name], want)


@pytest.mark.parametrize("name", MODULES)
def test_gradients_end_where_they_do_in_torch(name):
    torch.manual_seed(0)
    check(MODULES[name](), INPUTS)


EDGES = torch.tensor([[-6.0, -3.0, -1.0, -0.5], [0.0, 0.5, 1.0, 3.0], [6.0, 0.0, 1.0, -0.0]])
AT_EDGES = {
    "clamp": lambda p: p.clamp(0, 1),
    "clamp from below": lambda p: p.clamp(min=0),
    "clamp from above": lambda p: p.clamp(max=1),
    "clamp the wrong way round": lambda p: p.clamp(torch.tensor(1.0), torch.tensor(0.0)),
    "clamp by tensors": lambda p: p.clamp(torch.tensor([0, 0.5, 1, -3]), torch.ones(4)),
    "clip": lambda p: torch.clip(p, -1, 3),
    "relu": functional.relu,
    "relu6": functional.relu6,
    "hardtanh": functional.hardtanh,
    "leaky relu": lambda p: functional.leaky_relu(p, 0.2),
    "abs": torch.abs,
    "maximum": lambda p: p.maximum(torch.tensor([1.0, 0.5, 1.0, 3.0])),
    "power": lambda p: p.abs() ** torch.tensor([0.0, 1.0, 2.0, 3.0]),
    "least": lambda p: p.min(0)[0],
    "greatest": lambda p: p.max(1)[0],
}


@pytest.mark.parametrize("name", AT_EDGES)
def test_gradients_at_edges_are_those_of_torch(name):
    weights = torch.arange(1.0, 13).reshape(3, 4)

    class Edge(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Parameter(EDGES.clone())

        def forward(self, x):
            made = AT_EDGES[name](self.p)
            return (
                made * weights.to(made.dtype).flatten()[: made.numel()].reshape(made.shape)
            ).sum() * x.sum()

    check(Edge(), (torch.ones(1),))


@pytest.mark.parametrize("name", ["SimSiam", "VQ-VAE", "blocks in blocks", "autocast"])
def test_inference_has_no_op_for_the_end_of_a_gradient(name):
    graph = og.from_torch(MODULES[name]().eval(), INPUTS)
    assert "HostStopGradient" not in {op.kind for op in graph.ops}


def test_an_exported_program_ends_gradients_too_and_stays_as_it_is():
    module = MODULES["SimSiam"]()
    program = torch.export.export(module, INPUTS)
    before = str(program.graph)
    graph = og.from_torch(program, training=True)
    assert [op.kind for op in graph.ops].count("HostStopGradient") == 2
    assert str(program.graph) == before
    with pytest.raises(og.UnsupportedError, match="decomposed program does not tell any more"):
        og.from_torch(program.run_decompositions(), training=True)


def test_a_module_is_trained_where_gradients_are_switched_off():
    with torch.no_grad():
        (gradients, _), _ = differentiated(MODULES["tied"](), INPUTS)
    assert all(one is not None and one.any() for one in gradients.values())


# --- embeddings ------------------------------------------------------------------------------------------

TOKENS = torch.tensor([[0, 1, 2, 2], [3, 2, 0, 4]])


class Words(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.table = nn.Embedding(5, 3, **how)

    def forward(self, tokens):
        return (self.table(tokens) * torch.arange(1.0, 13).reshape(4, 3)).square().sum()


@pytest.mark.parametrize("padding", [0, 2, -1])
def test_the_row_of_a_padding_has_no_gradient(padding):
    module = Words(padding_idx=padding)
    with torch.no_grad():
        module.table.weight.copy_(normal(5, 3))
    check(module, (TOKENS,))


def test_an_embedding_with_sparse_gradients_is_an_embedding():
    check(Words(sparse=True), (TOKENS,))


# --- what is refused -------------------------------------------------------------------------------------


class Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def hooked_module():
    module = MODULES["tied"]()
    module.a.register_full_backward_hook(lambda *_: None)
    return module


def hooked_parameter():
    module = MODULES["tied"]()
    module.a.bias.register_hook(lambda gradient: 2 * gradient)
    return module


def hooked_inside(m, x, y):
    out = m.a(x)
    out.register_hook(lambda gradient: 2 * gradient)
    return m.b(out).sum()


def changed_without_gradient(m, x, y):
    out = m.a(x)
    with torch.no_grad():
        out.clamp_(0, 1)
    return m.b(out).sum()


def changed_behind_detach(m, x, y):
    out = m.a(x)
    out.detach().clamp_(0, 1)
    return m.b(out).sum()


def clipped(m, x, y):
    with torch.no_grad():
        m.a.weight.clamp_(-0.1, 0.1)
    return m.a(x).sum()


def inner_gradient(m, x, y):
    (slope,) = torch.autograd.grad(m.a(x).square().sum(), m.a.weight)
    return (m.a.weight * slope).sum()


def inferring(m, x, y):
    with torch.inference_mode():
        wanted = m.b(x)
    return (m.a(x) - wanted.clone()).square().sum()


def cast_and_off(m, x, y):
    with torch.autocast("cpu", enabled=False), torch.no_grad():
        wanted = m.b(x)
    return (m.a(x) - wanted).square().sum()


def read_raw(m, x, y):
    out = m.a(x)
    return (out * out.data).sum()


def backwards(m, x, y):
    out = m.a(x).sum()
    out.backward(retain_graph=True)
    return out


REFUSED = {
    "straight through": (of(lambda m, x, y: m.b(Rounding.apply(m.a(x))).sum()), "Function Rounding.*detach"),
    "gradient reversal": (of(lambda m, x, y: m.b(Reversal.apply(m.a(x))).sum()), "Reversal.*torch.compile"),
    "hook of a part": (hooked_module, "part 'a' of the Layers has a backward hook.*torch.compile"),
    "hook of a parameter": (hooked_parameter, "parameter 'a.bias' of the Layers has a backward hook"),
    "hook of a tensor": (of(hooked_inside), "register_hook of a tensor"),
    "change without gradient": (of(changed_without_gradient), "no_grad.. block changes 'linear' in place"),
    "change behind detach": (of(changed_behind_detach), r"'linear', is changed in place.*detach\(\).clone"),
    "clipped weights": (of(clipped), "changes its parameter 'a.weight'.*between steps"),
    "gradient inside": (of(inner_gradient), "autograd.grad without create_graph=True"),
    "inference mode": (of(inferring), "inference_mode.*no_grad"),
    "off in autocast": (of(cast_and_off), "inside a torch.autocast block"),
    "data": (of(read_raw), r"\.data, write detach"),
    "backward inside": (of(backwards), "backward of a tensor"),
    "reentrant": (
        of(lambda m, x, y: m.b(checkpoint(m.a, x, use_reentrant=True)).sum()),
        "pass use_reentrant=False",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_export_loses_is_refused_by_name(name):
    make, reason = REFUSED[name]
    before = {key: value for key, value in vars(torch.Tensor).items() if callable(value)}
    with pytest.raises(og.UnsupportedError, match=reason):
        og.from_torch(make(), INPUTS, training=True)
    assert {key: value for key, value in vars(torch.Tensor).items() if callable(value)} == before


@pytest.mark.parametrize(
    ("how", "reason"),
    [({"scale_grad_by_freq": True}, "scale_grad_by_freq"), ({"max_norm": 1.0}, "max_norm")],
)
def test_embeddings_that_are_refused(how, reason):
    with pytest.raises(og.UnsupportedError, match=reason):
        og.from_torch(Words(**how), (TOKENS,), training=True)
