"""`torch.compile` in the modes that torch has: without gradients, in evaluation, with hooks."""

import copy

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
)

nn = torch.nn
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    # torch's tracing looks at the gradients of what lies between two of its graphs.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


def loss_of(made):
    return made.square().mean()


def test_steps_of_training_with_momentum_are_as_in_double_precision():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    run = compiled(module)
    for model, call, given in ((module, run, x.float()), (expected, expected, x)):
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            loss_of(call(given)).backward()
            optimizer.step()
    assert_same_state(module, expected, 1e-4)
    assert module.norm.num_batches_tracked == 5


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode):
    module = seeded(Network).eval()
    expected, x = in_double(module, normal(4, 3, 8, 8))
    run = compiled(module)
    for _ in range(3):
        with mode():
            made = run(x.float())
        assert not made.requires_grad
        assert made.is_inference() == (mode is torch.inference_mode)
        assert_near(made, expected(x))
    assert {one.role for one in functions(module)} == {"inference"}


def test_weights_that_were_made_in_inference_mode():
    with torch.inference_mode():
        module = seeded(lambda: nn.Linear(6, 4)).eval()
        run = compiled(module)
        x = normal(3, 6)
        assert_near(run(x), nn.functional.linear(x.double(), module.weight.double(), module.bias.double()))
        module.weight.mul_(2)  # nobody counts this
        assert_near(run(x), nn.functional.linear(x.double(), module.weight.double(), module.bias.double()))


def test_one_model_with_and_without_gradients_by_turns():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    run = compiled(module)
    pairs = ((module, run, x.float()), (expected, expected, x))
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model, *_ in pairs]
    for _ in range(3):
        for (model, call, given), optimizer in zip(pairs, optimizers, strict=True):
            model.train()
            optimizer.zero_grad()
            loss_of(call(given)).backward()
            optimizer.step()
            model.eval()
        with torch.no_grad():
            assert_near(run(x.float()), expected(x), 1e-4)
        with torch.inference_mode():
            assert_near(run(x.float()), expected(x), 1e-4)
    assert_same_state(module, expected, 1e-4)


def test_gradients_accumulate():
    module = seeded(Network)
    expected, *batches = in_double(module, *[normal(4, 3, 8, 8, seed=seed) for seed in range(3)])
    run = compiled(module)
    for x in batches:
        loss_of(run(x.float())).backward()
        loss_of(expected(x)).backward()
    assert_same_state(module, expected)


def test_two_calls_before_one_backward_pass():
    module = seeded(Network)
    expected, a, b = in_double(module, normal(4, 3, 8, 8), normal(4, 3, 8, 8, seed=1))
    run = compiled(module)
    (loss_of(run(a.float())) * loss_of(run(b.float()))).backward()
    (loss_of(expected(a)) * loss_of(expected(b))).backward()
    assert_same_state(module, expected)


def test_a_backward_pass_again_over_a_graph_that_is_kept():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    for model, call, given in ((module, compiled(module), x.float()), (expected, expected, x)):
        loss = loss_of(call(given))
        loss.backward(retain_graph=True)
        loss.backward()
        assert model.first.weight.grad is not None
    assert_same_state(module, expected)


def test_gradients_of_some_parameters_and_of_inputs():
    module = seeded(Network)
    module.first.requires_grad_(False)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    mine, theirs = x.float().requires_grad_(), x.clone().requires_grad_()
    loss_of(compiled(module)(mine)).backward()
    loss_of(expected(theirs)).backward()
    assert module.first.weight.grad is None
    assert_near(mine.grad, theirs.grad)
    assert_same_state(module, expected)


def test_hooks_see_what_passes():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    seen = {}

    def watched(model, name):
        def forward(layer, inputs, made):
            seen.setdefault(name, []).append(made.detach().double())
            return made * 2

        def backward(layer, gradients, made):
            seen[name] += [one.detach().double() for one in made]

        model.first.register_forward_hook(forward)
        model.last.register_full_backward_hook(backward)
        model.second.weight.register_hook(lambda gradient: gradient * 3)
        model.last.bias.register_post_accumulate_grad_hook(
            lambda one: seen[name].append(one.grad.double().clone())
        )
        return model

    run = compiled(watched(module, "compiled"))
    watched(expected, "eager")
    loss_of(run(x.float())).backward()
    loss_of(expected(x)).backward()
    assert_same_state(module, expected)
    assert len(seen["compiled"]) == len(seen["eager"]) == 3
    for made, other in zip(seen["compiled"], seen["eager"], strict=True):
        assert_near(made, other)


def test_hooks_on_the_compiled_module():
    module = seeded(Network)
    run = compiled(module)
    called = []
    run.register_forward_pre_hook(lambda *_: called.append("before"))
    run.register_forward_hook(lambda *_: called.append("after"))
    run(normal(4, 3, 8, 8))
    assert called == ["before", "after"]


def test_saved_tensors_go_through_hooks():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    run = compiled(module)
    packed = []

    def pack(tensor):
        packed.append(tensor.nbytes)
        return tensor.clone().numpy()

    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        loss = loss_of(run(x.float()))
    loss.backward()
    loss_of(expected(x)).backward()
    assert sum(packed) > 0
    assert_same_state(module, expected)


def test_saved_tensors_on_the_cpu():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    run = compiled(module)
    with torch.autograd.graph.save_on_cpu():
        loss = loss_of(run(x.float()))
    loss.backward()
    loss_of(expected(x)).backward()
    assert_same_state(module, expected)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_checkpoints(reentrant, outside):
    """Inside a compiled model, and around one."""

    class Checkpointed(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, x):
            made = torch.utils.checkpoint.checkpoint(self.part, x, use_reentrant=reentrant)
            return made.tanh()

    module = seeded(Network)
    if not outside:  # what is computed again there updates no statistics, with any backend of torch
        module.norm = nn.GroupNorm(2, 8)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    x = x.requires_grad_()
    run = Checkpointed(compiled(module)) if outside else compiled(Checkpointed(module))
    for _ in range(2):
        loss_of(run(x.detach().float().requires_grad_())).backward()
        loss_of(Checkpointed(expected)(x)).backward()
    assert_same_state(module, expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_draws_the_same_random_numbers_again(reentrant):
    def forward(x):
        return torch.utils.checkpoint.checkpoint(
            lambda y: nn.functional.dropout(y * y, 0.5), x, use_reentrant=reentrant
        ).sum()

    results = []
    for call in (forward, compiled(forward)):
        x = torch.arange(1.0, 65.0).requires_grad_()
        torch.manual_seed(0)
        loss = call(x)
        loss.backward()
        results.append((loss, x.grad))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_a_whole_graph_is_asked_for():
    module = seeded(Network)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    assert_near(compiled(module, fullgraph=True)(x.float()), expected(x))


def test_a_model_that_torch_cuts():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.first(x).relu()
            torch._dynamo.graph_break()
            return self.last(x)

    module = seeded(Cut)
    expected, x = in_double(module, normal(3, 6))
    loss_of(compiled(module)(x.float())).backward()
    loss_of(expected(x)).backward()
    assert_same_state(module, expected)


def test_second_derivatives_are_refused_by_torch():
    module = seeded(lambda: nn.Linear(4, 4))
    x = normal(2, 4).requires_grad_()
    [gradient] = torch.autograd.grad(compiled(module)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize("inside", [False, True])
def test_autocast(inside):
    """Types as eager has them; numbers as near to f32 as eager's are."""

    def run_under(call, x):
        with torch.autocast("cpu", torch.bfloat16):
            return call(x)

    module = seeded(Network)
    eager, expected = copy.deepcopy(module), copy.deepcopy(module)
    x = normal(4, 3, 8, 8)
    made = compiled(lambda x: run_under(module, x))(x) if inside else run_under(compiled(module), x)
    other, exact = run_under(eager, x), expected(x)
    assert made.dtype == other.dtype == torch.bfloat16
    assert (made - exact).norm() <= 1.5 * (other - exact).norm() + 1e-3 * exact.norm()
    for one in (made, other, exact):
        loss_of(one.float()).backward()
    for mine, theirs, right in zip(
        module.parameters(), eager.parameters(), expected.parameters(), strict=True
    ):
        assert mine.grad.dtype == theirs.grad.dtype == torch.float32
        if right.grad.norm() > 1e-6:
            bound = 1.5 * (theirs.grad - right.grad).norm() + 0.01 * right.grad.norm()
            assert (mine.grad - right.grad).norm() <= bound


def test_random_numbers_are_torchs():
    module = seeded(lambda: nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 4)))
    expected, x = in_double(module, normal(8, 16))
    torch.manual_seed(7)
    made = compiled(module)(x.float())
    after = torch.rand(1)
    torch.manual_seed(7)
    assert_near(made, expected(x))
    assert torch.rand(1) == after


def test_gradients_of_each_example():
    """`torch.func` goes through torch's tracing, not around it."""
    w = normal(4, 3)

    def loss(w, x):
        return (x @ w).square().sum()

    def each(w, x):
        return torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)

    x = normal(5, 4, seed=1)
    assert_near(compiled(each)(w, x), each(w.double(), x.double()))
