"""Losses, their gradients and second derivatives against torch in double precision."""

from functools import partial

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from losses import run

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
F = torch.nn.functional
T = og.training
REDUCTIONS = ("mean", "sum", "none")
WITHIN = {np.float32: {"rtol": 3e-5, "atol": 3e-6}, np.float64: {"rtol": 1e-9, "atol": 1e-11}}


def compared(build, torch_loss, arrays, *, by, second=False, opened=(0,), **within):
    """Holds a loss of ours and its gradients against torch's of the same arrays in f64."""
    dtype = arrays[by[0]].dtype.type
    loss, firsts, seconds = run(build, arrays, by=by, opened=opened, second=second)
    twins = {
        name: torch.tensor(a.astype(np.float64) if a.dtype.kind == "f" else a.astype(np.int64))
        for name, a in arrays.items()
    }
    wanted = [twins[name].requires_grad_() for name in by]
    expected = torch_loss(**twins)
    gradients = torch.autograd.grad(expected.sum(), wanted, create_graph=second)
    assert loss.dtype == dtype
    assert loss.shape == expected.shape
    close = partial(np.testing.assert_allclose, **{**WITHIN[dtype], **within})
    close(loss, expected.detach().numpy(), err_msg="loss")
    for name, have, want in zip(by, firsts, gradients, strict=True):
        close(have, want.detach().numpy(), err_msg=f"by {name}")
    if second:
        both = sum(g.square().sum() for g in gradients)
        again = torch.autograd.grad(both, wanted)
        for name, have, want in zip(by, seconds, again, strict=True):
            close(have, want.numpy(), err_msg=f"twice by {name}")


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
dtypes = st.sampled_from((np.float32, np.float64))
seeds = st.integers(0, 2**16)
reductions = st.sampled_from(REDUCTIONS)


def leading(draw, rng, shape, dtype):
    """Weights of some first axes of a shape, or None."""
    if not draw(st.booleans()):
        return {}
    axes = draw(st.integers(1, len(shape)))
    return {"weights": rng.uniform(0, 2, shape[:axes]).astype(dtype)}


def reduced(losses, reduction, weights=None):
    """What a reduction makes of losses that are weighted."""
    if weights is not None:
        losses = losses * weights.reshape(*weights.shape, *[1] * (losses.ndim - weights.ndim))
    return {"mean": losses.mean, "sum": losses.sum, "none": lambda: losses}[reduction]()


ELEMENTWISE = {
    "mean_squared_error": (T.mean_squared_error, lambda a, b, **_: F.mse_loss(a, b, reduction="none"), {}),
    "mean_absolute_error": (T.mean_absolute_error, lambda a, b, **_: F.l1_loss(a, b, reduction="none"), {}),
    "huber": (T.huber, lambda a, b, **o: F.huber_loss(a, b, reduction="none", **o), {"delta": (0.1, 1.0, 3)}),
    "smooth_l1": (
        T.smooth_l1,
        lambda a, b, **o: F.smooth_l1_loss(a, b, reduction="none", **o),
        {"beta": (0.0, 0.1, 1.0, 3)},
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@settings(max_examples=25)
@given(data=st.data())
def test_losses_between_numbers(name, data):
    ours, theirs, choices = ELEMENTWISE[name]
    shape, dtype, reduction = data.draw(shapes), data.draw(dtypes), data.draw(reductions)
    options = {key: data.draw(st.sampled_from(values)) for key, values in choices.items()}
    rng = np.random.default_rng(data.draw(seeds))
    arrays = {"predictions": rng.normal(size=shape), "targets": rng.normal(size=shape)}
    arrays = {key: a.astype(dtype) for key, a in arrays.items()} | leading(data.draw, rng, shape, dtype)

    def expected(predictions, targets, weights=None):
        return reduced(theirs(predictions, targets, **options), reduction, weights)

    compared(
        partial(ours, reduction=reduction, **options),
        expected,
        arrays,
        by=["predictions", "targets"],
        second=name != "mean_absolute_error" and options.get("beta", 1) > 0,
    )


@settings(max_examples=40)
@given(data=st.data())
def test_binary_cross_entropies(data):
    shape, dtype, reduction = data.draw(shapes), data.draw(dtypes), data.draw(reductions)
    rng = np.random.default_rng(data.draw(seeds))
    hard = data.draw(st.booleans())
    targets = rng.uniform(0, 1, shape).astype(dtype)
    targets = np.round(targets) if hard else targets
    weights = leading(data.draw, rng, shape, dtype)
    factor = data.draw(st.sampled_from((None, "one", "many")))
    pos_weight = {None: None, "one": 2.5, "many": rng.uniform(0.5, 3, shape[-1]).astype(dtype)}[factor]
    arrays = {"logits": (10 * rng.normal(size=shape)).astype(dtype), "targets": targets, **weights}
    twin = None if pos_weight is None else torch.as_tensor(pos_weight, dtype=torch.float64)

    def expected(logits, targets, weights=None):
        losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none", pos_weight=twin)
        return reduced(losses, reduction, weights)

    compared(
        partial(T.binary_cross_entropy_with_logits, pos_weight=pos_weight, reduction=reduction),
        expected,
        arrays,
        by=["logits"],
        second=True,
    )
    arrays = {"probabilities": rng.uniform(0.05, 0.95, shape).astype(dtype), "targets": targets, **weights}

    def of_probabilities(probabilities, targets, weights=None):
        return reduced(F.binary_cross_entropy(probabilities, targets, reduction="none"), reduction, weights)

    compared(
        partial(T.binary_cross_entropy, reduction=reduction),
        of_probabilities,
        arrays,
        by=["probabilities"],
        second=True,
        **(
            {"rtol": 2e-4, "atol": 1e-5} if dtype is np.float32 else {}
        ),  # 1 / p of p = 0.05 in the fourth power
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
def test_probabilities_of_zero_and_one(target, dtype):
    p = np.array([0, 1e-30, 1e-13, 1e-7, 0.5, 1 - 1e-7, 1], dtype)
    arrays = {"probabilities": p, "targets": np.full_like(p, target)}
    loss, (gradient,), _ = run(
        partial(T.binary_cross_entropy, reduction="none"), arrays, by=["probabilities"]
    )
    twin = torch.tensor(p.astype(np.float64), requires_grad=True)
    expected = F.binary_cross_entropy(
        twin, torch.full_like(twin, float(arrays["targets"][0])), reduction="none"
    )
    expected.sum().backward()
    np.testing.assert_allclose(loss, expected.detach().numpy(), rtol=1e-5)
    # Torch's slope is 0 at the end where the target is, ours that of the formula, ±1.
    same = (p > 1e-12) & (p < 1) if target in (0, 1) else np.ones_like(p, bool)
    want = np.where(same, twin.grad.numpy(), 0)
    if target in (0, 1):
        away = np.abs(p - (1 - target)) < 1e-6
        want = np.where(away, twin.grad.numpy(), np.where(same, want, 1 if target == 0 else -1))
    np.testing.assert_allclose(gradient, want, rtol=1e-4, atol=1e-6)


EXTREMES = np.array([-1e4, -100, -20, -1, 0, 1, 20, 100, 1e4])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
def test_extreme_logits_of_yes_or_no(target, dtype):
    x = EXTREMES.astype(dtype)
    compared(
        partial(T.binary_cross_entropy_with_logits, pos_weight=2.0, reduction="none"),
        lambda logits, targets: F.binary_cross_entropy_with_logits(
            logits, targets, reduction="none", pos_weight=torch.tensor(2.0, dtype=torch.float64)
        ),
        {"logits": x, "targets": np.full_like(x, target)},
        by=["logits"],
        rtol=2e-6,
        atol=1e-12 if target in (0, 1) else 1e-6,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_logits_of_classes(dtype):
    x = np.array([[1e4, -1e4, 0], [-1e4, 1e4, 1e4], [0, 0, 0], [-np.inf, 0, 5]], dtype)
    arrays = {"logits": x, "labels": np.array([0, 2, 1, 2])}
    compared(
        partial(T.cross_entropy, reduction="none"),
        lambda logits, labels: F.cross_entropy(logits, labels, reduction="none"),
        arrays,
        by=["logits"],
    )


def of_classes(data, *, shares=False):
    """A drawn problem: arrays with the classes along an axis, that axis, options, and the same for torch."""
    shape, dtype = data.draw(shapes), data.draw(dtypes)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    rng = np.random.default_rng(data.draw(seeds))
    size = shape[axis]
    places = np.delete(shape, axis)
    logits = (data.draw(st.sampled_from((1, 30))) * rng.normal(size=shape)).astype(dtype)
    labels = rng.integers(0, size, places).astype(data.draw(st.sampled_from((np.int32, np.int64))))
    ignore = data.draw(st.sampled_from((None, None, -100, 0)))
    if shares:
        labels = np.moveaxis(rng.dirichlet(np.ones(size), places), -1, axis).astype(dtype)
        ignore = None
    elif ignore == -100:
        labels[rng.random(labels.shape) < 0.4] = ignore
    options = {"ignore_index": ignore} if ignore is not None else {}
    theirs = dict(options)
    if data.draw(st.booleans()):
        options["class_weights"] = rng.uniform(0.1, 2, size).astype(dtype)
        theirs["weight"] = torch.tensor(options["class_weights"].astype(np.float64))
    options["reduction"] = theirs["reduction"] = data.draw(reductions)
    return logits, labels, axis, options, theirs


@settings(max_examples=150)
@given(data=st.data(), shares=st.booleans(), smoothing=st.sampled_from((0.0, 0.1, 1.0)))
def test_cross_entropy(data, shares, smoothing):
    logits, labels, axis, options, theirs = of_classes(data, shares=shares)
    alone = logits.ndim == 1  # torch's own case without examples has no `none`

    def expected(logits, labels):
        logits = logits.movedim(axis, -1).flatten(0, -2) if not alone else logits[None]
        classes = logits.shape[-1]
        places = labels.shape if not shares else labels.movedim(axis, -1).shape[:-1]
        flat = labels.movedim(axis, -1).reshape(-1, classes) if shares else labels.reshape(-1)
        found = F.cross_entropy(logits, flat, label_smoothing=smoothing, **theirs)
        return found.reshape(places) if theirs["reduction"] == "none" else found

    compared(
        partial(T.cross_entropy, axis=axis, label_smoothing=smoothing, **options),
        expected,
        {"logits": logits, "labels": labels},
        by=["logits"],
        second=bool(np.abs(logits).max() < 10),
        rtol=1e-4 if logits.dtype == np.float32 else 1e-8,
        atol=1e-5 if logits.dtype == np.float32 else 1e-10,
    )


@settings(max_examples=60)
@given(data=st.data(), opened=st.sampled_from(((), (0,), (0, 1), (0, 1, 2, 3))))
def test_negative_log_likelihood(data, opened):
    logits, labels, axis, options, theirs = of_classes(data)

    def expected(logs, labels):
        logs = logs.movedim(axis, -1).reshape(-1, logs.shape[axis])
        found = F.nll_loss(logs, labels.reshape(-1), **theirs)
        return found.reshape(labels.shape) if theirs["reduction"] == "none" else found

    compared(
        lambda graph, logs, labels: T.negative_log_likelihood(graph, logs, labels, axis=axis, **options),
        expected,
        {"logs": logits, "labels": labels},
        by=["logs"],
        opened=opened,
    )


@settings(max_examples=40)
@given(data=st.data(), log_targets=st.booleans(), some_zero=st.booleans())
def test_kl_divergence(data, log_targets, some_zero):
    shape, dtype, reduction = data.draw(shapes), data.draw(dtypes), data.draw(reductions)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    rng = np.random.default_rng(data.draw(seeds))
    targets = np.moveaxis(rng.dirichlet(np.ones(shape[axis]), np.delete(shape, axis)), -1, axis)
    if some_zero and not log_targets:
        targets[rng.random(shape) < 0.3] = 0
    targets = (np.log(targets) if log_targets else targets).astype(dtype)
    weights = (
        leading(data.draw, rng, shape[:-1], dtype) if len(shape) > 1 and axis in (-1, len(shape) - 1) else {}
    )

    def expected(logs, targets, weights=None):
        losses = F.kl_div(logs, targets, reduction="none", log_target=log_targets).sum(axis)
        return reduced(losses, reduction, weights)

    compared(
        lambda graph, logs, targets, **more: T.kl_divergence(
            graph, logs, targets, axis=axis, log_targets=log_targets, reduction=reduction, **more
        ),
        expected,
        {"logs": rng.normal(size=shape).astype(dtype), "targets": targets, **weights},
        by=["logs"] if some_zero else ["logs", "targets"],
    )


def test_of_one_axis_of_examples_it_is_the_mean_of_a_batch():
    rng = np.random.default_rng(0)
    arrays = {"logs": rng.normal(size=(5, 3)), "targets": rng.dirichlet(np.ones(3), 5)}
    compared(
        lambda graph, logs, targets: T.kl_divergence(graph, logs, targets),
        lambda logs, targets: F.kl_div(logs, targets, reduction="batchmean"),
        arrays,
        by=["logs"],
    )


EMPTY = {
    "mean_squared_error": (T.mean_squared_error, F.mse_loss),
    "mean_absolute_error": (T.mean_absolute_error, F.l1_loss),
    "huber": (T.huber, F.huber_loss),
    "smooth_l1": (T.smooth_l1, F.smooth_l1_loss),
    "binary_cross_entropy_with_logits": (
        T.binary_cross_entropy_with_logits,
        F.binary_cross_entropy_with_logits,
    ),
    "binary_cross_entropy": (T.binary_cross_entropy, F.binary_cross_entropy),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", EMPTY)
def test_no_examples(name, reduction):
    ours, theirs = EMPTY[name]
    none = np.zeros((0, 3), np.float32)
    compared(
        lambda graph, x, y: ours(graph, x, y, reduction=reduction),
        lambda x, y: theirs(x, y, reduction=reduction),
        {"x": none, "y": none},
        by=["x"],
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["cross_entropy", "negative_log_likelihood"])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0]])
def test_no_labels(name, weights, reduction):
    theirs = F.cross_entropy if name == "cross_entropy" else F.nll_loss
    compared(
        lambda graph, x, y: getattr(T, name)(graph, x, y, reduction=reduction, class_weights=weights),
        lambda x, y: theirs(
            x, y, reduction=reduction, weight=None if weights is None else torch.tensor(weights).double()
        ),
        {"x": np.zeros((0, 3), np.float32), "y": np.zeros(0, np.int64)},
        by=["x"],
    )


@settings(max_examples=60)
@given(
    data=st.data(),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(2, 5), st.integers(1, 4)),
    zero_infinity=st.booleans(),
    reduction=reductions,
    dtype=dtypes,
)
def test_ctc(data, sizes, zero_infinity, reduction, dtype):
    count, time, classes, most = sizes
    rng = np.random.default_rng(data.draw(seeds))
    blank = data.draw(st.integers(0, classes - 1))
    arrays = {
        "logits": (3 * rng.normal(size=(count, time, classes))).astype(dtype),
        "labels": rng.choice(np.delete(np.arange(classes), blank), (count, most)),
        "times": rng.integers(0, time + 1, count),
        "lengths": rng.integers(0, most + 1, count),
    }

    def ours(graph, logits, labels, times, lengths):
        return T.ctc(
            graph,
            logits,
            labels,
            times,
            lengths,
            blank=blank,
            zero_infinity=zero_infinity,
            reduction=reduction,
        )

    def expected(logits, labels, times, lengths):
        logs = logits.log_softmax(2).movedim(1, 0)
        return F.ctc_loss(
            logs, labels, times, lengths, blank=blank, zero_infinity=zero_infinity, reduction=reduction
        )

    compared(ours, expected, arrays, by=["logits"], opened=(0, 1), rtol=1e-4, atol=1e-5)


@settings(max_examples=30)
@given(data=st.data(), shape=st.lists(st.integers(1, 4), min_size=2, max_size=3).map(tuple), dtype=dtypes)
def test_margins(data, shape, dtype):
    rng, reduction = np.random.default_rng(data.draw(seeds)), data.draw(reductions)
    first, second, third = (rng.normal(size=shape).astype(dtype) for _ in range(3))
    signs = rng.choice([-1.0, 1.0], shape).astype(dtype)
    margin = data.draw(st.sampled_from((0.1, 0.5, 1.0)))
    compared(
        partial(T.hinge, reduction=reduction),
        lambda x, y: reduced(torch.clamp(1 - x * y, min=0), reduction),
        {"x": first, "y": signs},
        by=["x"],
    )
    places = shape[:-1]

    def of_cosines(x, y, targets):
        flat = (one.reshape(-1, shape[-1]) for one in (x, y))
        losses = F.cosine_embedding_loss(*flat, targets.reshape(-1), margin=margin, reduction="none")
        return reduced(losses.reshape(places), reduction)

    compared(
        lambda graph, x, y, targets: T.cosine_embedding(
            graph, x, y, targets, margin=margin, reduction=reduction
        ),
        of_cosines,
        {"x": first, "y": second, "targets": signs[..., 0]},
        by=["x", "y"],
        second=dtype is np.float64 and shape[-1] > 1,
        **({"rtol": 1e-3, "atol": 1e-4} if dtype is np.float32 else {}),  # short vectors
    )
    compared(
        lambda graph, x, y, z: T.triplet_margin(graph, x, y, z, margin=margin, reduction=reduction),
        lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=margin, reduction=reduction),
        {"x": first, "y": second, "z": third},
        by=["x", "y", "z"],
        **({"rtol": 1e-3, "atol": 1e-4} if dtype is np.float32 else {}),
    )
