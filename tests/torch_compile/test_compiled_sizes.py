"""Sizes that change: torch traces no more often than it must, and programs are made for each and bounded."""

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


def test_a_batch_that_is_marked_is_traced_once():
    module = seeded(Network).eval()
    run = compiled(module)
    with torch.no_grad():
        for batch in (4, 2, 7, 4, 2):
            x = normal(batch, 3, 8, 8)
            torch._dynamo.mark_dynamic(x, 0)
            expected, exact = in_double(module, x)
            assert_near(run(x), expected(exact))
    assert traced() == 1
    [function] = functions(module)
    assert len(function.programs) == 3


def test_a_batch_that_changes_is_traced_twice():
    module = seeded(Network).eval()
    run = compiled(module)
    with torch.no_grad():
        for batch in (4, 2, 7, 3):
            x = normal(batch, 3, 8, 8)
            expected, exact = in_double(module, x)
            assert_near(run(x), expected(exact))
    assert traced() == 2
    assert sorted(len(function.programs) for function in functions(module)) == [1, 3]


def test_training_with_a_last_batch_that_is_smaller():
    module = seeded(Network)
    expected, x = in_double(module, normal(9, 3, 8, 8))
    run = compiled(module, dynamic=True)
    for batch in (9, 9, 4, 9, 5):
        run(x[:batch].float()).square().mean().backward()
        expected(x[:batch]).square().mean().backward()
    assert_same_state(module, expected, 1e-4)
    assert traced() == 1
    assert all(len(function.programs) == 3 for function in functions(module))


def test_sizes_of_images_and_of_words():
    def attention(x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x).reshape(x.shape[0], -1).softmax(1)

    run = compiled(attention, dynamic=True)
    for batch, words in ((5, 6), (3, 7), (5, 9)):
        x = normal(batch, 2, words, 8)  # equal sizes would be taken for one by torch
        assert_near(run(x), attention(x.double()))
    assert traced() == 1


def test_programs_are_bounded(monkeypatch):
    from onednn_graph.graph.torch_compile import backend

    monkeypatch.setattr(backend, "KEPT_PROGRAMS", 3)
    module = seeded(lambda: nn.Linear(4, 3)).eval()
    run = compiled(module, dynamic=True)
    with torch.no_grad():
        for batch in (*range(2, 9), 2):
            x = normal(batch, 4)
            expected, exact = in_double(module, x)
            assert_near(run(x), expected(exact))
    [function] = functions(module)
    assert len(function.programs) == 3
    assert traced() == 1


def test_shapes_that_depend_on_values():
    def function(x):
        chosen = x[x > 0]
        return chosen.sum(), torch.nonzero(x).shape[0], torch.unique(chosen.round()).relu()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(function)
        for seed in range(3):
            x = normal(20, seed=seed)
            made, expected = run(x), function(x.double())
            assert_near(made[0], expected[0])
            assert made[1] == expected[1]
            assert torch.equal(made[2], expected[2].float())


def test_gradients_through_shapes_that_depend_on_values():
    def function(x, w):
        z = x[x[:, 0] > 0] @ w
        rows = torch.zeros(z.shape[0], dtype=torch.long)
        return torch.zeros(3, 2, dtype=w.dtype).index_add(0, rows, z.relu())

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(function, fullgraph=True)
        for seed in range(3):
            x, w = normal(6, 4, seed=seed), normal(4, 2).requires_grad_()
            exact = w.detach().double().requires_grad_()
            made, expected = run(x, w), function(x.double(), exact)
            assert_near(made, expected)
            made.sum().backward()
            expected.sum().backward()
            assert_near(w.grad, exact.grad)


def test_what_a_model_checks_is_checked():
    def function(x):
        many = x.max().item()
        torch._check(many < 3, lambda: "too many")
        return x * many

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = compiled(function, fullgraph=True)
        assert run(torch.tensor([1, 2])).tolist() == [2, 4]
        with pytest.raises(RuntimeError, match=r"assertion failed|too many"):
            run(torch.tensor([1, 7]))


def test_nested_tensors():
    layer = seeded(lambda: nn.Linear(4, 3))

    def function(x):
        return layer(x).relu()

    run = compiled(function)
    for lengths in ((3, 5), (2, 6), (4, 1, 2)):
        parts = [normal(length, 4, seed=length) for length in lengths]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        made = run(x)
        for one, part in zip(made.unbind(), parts, strict=True):
            torch.testing.assert_close(one, function(part))
        [found] = torch.autograd.grad(made.values().square().sum(), [layer.weight])
        [expected] = torch.autograd.grad(function(torch.cat(parts)).square().sum(), [layer.weight])
        torch.testing.assert_close(found, expected)


def test_numbers_that_change_are_arguments():
    run = compiled(lambda x, scale: x * scale, dynamic=True)
    x = normal(3)
    for scale in (2, 3, 4, 5.5, 6.5):
        assert torch.equal(run(x, scale), x * scale)


def test_layouts_that_change():
    module = seeded(Network).eval()
    run = compiled(module)
    with torch.no_grad():
        for layout in (torch.contiguous_format, torch.channels_last, torch.contiguous_format):
            x = normal(4, 3, 8, 8).to(memory_format=layout)
            expected, exact = in_double(module, x)
            assert_near(run(x), expected(exact))
