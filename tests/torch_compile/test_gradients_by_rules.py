"""Gradients of ATen that are a graph's own rules, against torch's kernels."""

import itertools

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.graph.aten.table import AUTOGRAD  # noqa: E402 -- torch comes first
from onednn_graph.graph.importing.translation import Translation, Unmapped  # noqa: E402
from torch_compiled import normal  # noqa: E402

X, GRADIENT = normal(2, 6, 4, 5), normal(2, 6, 4, 5, seed=1)
GAMMA, MEAN, VARIANCE = normal(6, seed=2), normal(6, seed=3), normal(6, seed=4).abs() + 0.5
MASKS = [mask for mask in itertools.product((True, False), repeat=3) if any(mask)]


def same(op, *arguments, tolerance=1e-5):
    """What a translation makes of tensors, which are inputs of a graph, is what torch's op does."""
    t = Translation()
    feeds, given = {}, []
    for number, one in enumerate(arguments):
        if isinstance(one, torch.Tensor):
            feeds[f"x{number}"] = one.numpy()
            one = t.input(f"x{number}", og.DataType.f32, one.shape)
        given.append(one)
    made = AUTOGRAD[f"aten.{op}"](t, *given)
    wanted = getattr(torch.ops.aten, op)(*arguments)
    made, wanted = ([made], [wanted]) if isinstance(wanted, torch.Tensor) else (made, wanted)
    there = {f"y{number}": one for number, one in enumerate(made) if one is not None}
    for name, one in there.items():
        t.graph.output(t.tensor(one), name=name)
    t.graph.prune()
    known = {tensor.name for tensor in t.graph.inputs}
    results = t.graph.compile()({name: array for name, array in feeds.items() if name in known})
    for number, want in enumerate(wanted):
        assert (f"y{number}" in there) == (want is not None and want.numel() > 0)
        if f"y{number}" in there:
            scale = max(want.abs().max().item(), 1e-3)
            np.testing.assert_allclose(results[f"y{number}"], want.numpy(), rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("slope", [0.2, 0, 1, -0.5, 3])
def test_a_leaky_relu(slope):
    same("leaky_relu_backward", GRADIENT, X, slope, False)


def test_a_leaky_relu_whose_result_does_not_tell_the_sign_is_torchs():
    with pytest.raises(Unmapped, match="does not tell the sign"):
        AUTOGRAD["aten.leaky_relu_backward"](Translation(), GRADIENT.numpy(), X.numpy(), -0.5, True)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("gamma", [GAMMA, None])
def test_a_batch_normalisation_by_given_statistics(gamma, mask):
    same(
        "native_batch_norm_backward", GRADIENT, X, gamma, MEAN, VARIANCE, None, None, False, 1e-3, list(mask)
    )


@pytest.mark.parametrize(
    ("gamma", "mask"), [*((GAMMA, mask) for mask in MASKS), (None, (True, False, False))]
)
def test_a_normalisation_of_groups(gamma, mask):
    _, mean, inverse = torch.ops.aten.native_group_norm(X, gamma, None, 2, 6, 20, 3, 1e-3)
    same("native_group_norm_backward", GRADIENT, X, mean, inverse, gamma, 2, 6, 20, 3, list(mask))
