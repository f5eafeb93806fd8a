"""Low-rank adapters: what is added, that nothing changes at first, exact merging, and training as by hand in NumPy."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.training.step import trainable
from rows import each

RNG = np.random.default_rng(0)


def whole(*shape, dtype=np.float32):
    return RNG.integers(-3, 4, shape).astype(dtype)


def result(graph, **arrays):
    return graph.compile()(arrays)["y"]


def drawn(graph):
    """Integers in A and B."""
    rng = np.random.default_rng(7)
    graph.set_parameters(
        {
            name: rng.integers(-2, 3, a.shape).astype(a.dtype)
            for name, a in graph.parameters.items()
            if "lora" in name
        }
    )
    return graph


def product(shape, weights, transpose_a=False, transpose_b=False, first=False, bias=False):
    def made():
        graph = og.Graph()
        x = graph.input("x", "f32", shape)
        w = graph.parameter(whole(*weights), name="layer.weight")
        more = [graph.parameter(whole(4), name="layer.bias")] if bias else []
        pair = [w, x] if first else [x, w]
        graph.matmul(*pair, *more, transpose_a=transpose_a, transpose_b=transpose_b, name="y")
        return graph, {"x": whole(*shape)}

    return made


def convolution(data_format, weights_format, spatial=2, **attributes):
    def made():
        shape = [2, *[6] * spatial, 3] if data_format == "NXC" else [2, 3, *[6] * spatial]
        sizes = {"O": [5], "I": [3], "X": [3, 2, 2][:spatial]}
        graph = og.Graph()
        x = graph.input("x", "f32", shape)
        w = graph.parameter(whole(*(d for c in weights_format for d in sizes[c])), name="conv.weight")
        taken = {
            "strides": [2, 1, 1][:spatial], "pads_begin": [1, 0, 1][:spatial], "pads_end": [0, 1, 1][:spatial],
            "dilations": [1, 2, 1][:spatial], **attributes,
        }  # fmt: skip
        graph.convolution(
            x, w, graph.parameter(whole(5), name="conv.bias"), data_format=data_format,
            weights_format=weights_format, name="y", **taken,
        )  # fmt: skip
        return graph, {"x": whole(*shape)}

    return made


def turned():
    """Weights that reach the product through a transposition and a cast."""
    graph = og.Graph()
    x = graph.input("x", "bf16", [2, 3])
    w = graph.parameter(whole(4, 3), name="layer.weight")
    narrow = graph.type_cast(graph.static_transpose(w, order=[1, 0]), output_type="bf16")
    graph.type_cast(graph.matmul(x, narrow), output_type="f32", name="y")
    return graph, {"x": whole(2, 3, dtype=ml_dtypes.bfloat16)}


FORMS = {
    "a matrix": product((2, 3), (3, 4)),
    "of torch's Linear": product((2, 5, 3), (4, 3), transpose_b=True, bias=True),
    "both turned": product((3, 2), (4, 3), transpose_a=True, transpose_b=True),
    "a vector": product((3,), (3, 4)),
    "weights of batches": product((5, 2, 3), (5, 3, 4)),
    "weights of batches, turned": product((5, 2, 3), (5, 4, 3), transpose_b=True),
    "weights first": product((3, 2), (4, 3), first=True),
    "weights first, turned": product((2, 3), (3, 4), first=True, transpose_a=True, transpose_b=True),
    "through other ops": turned,
    "NCX OIX": convolution("NCX", "OIX"),
    "NXC XIO": convolution("NXC", "XIO"),
    "NXC OIX in 1-D": convolution("NXC", "OIX", 1),
    "NCX XIO in 3-D": convolution("NCX", "XIO", 3),
    "padded by rule": convolution("NCX", "OIX", auto_pad="SAME_UPPER"),
    "one by one": convolution("NXC", "XIO", strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]),
}


@each("name", FORMS)
def test_nothing_changes_at_first_and_merged_is_the_same_exactly(name):
    graph, feeds = FORMS[name]()
    before = {name: a.copy() for name, a in graph.parameters.items()}
    adapted = graph.adapters(2, "*.weight", alpha=4)
    module = "conv" if "conv.weight" in before else "layer"
    assert set(adapted.parameters) == {f"{module}.lora_A.weight", f"{module}.lora_B.weight"}
    plain = result(graph, **feeds)
    np.testing.assert_array_equal(result(adapted, **feeds), plain)
    np.testing.assert_array_equal(result(adapted.merge_adapters(), **feeds), plain)
    drawn(adapted)
    changed = result(adapted, **feeds)
    assert not np.array_equal(changed, plain)
    merged = adapted.merge_adapters()
    np.testing.assert_array_equal(result(merged, **feeds), changed)
    assert len(merged.ops) == len(graph.ops)
    assert set(merged.constants) == set(graph.parameters)
    assert not merged.parameters
    for key, array in before.items():
        np.testing.assert_array_equal(graph.parameters[key], array)


def test_what_is_added_is_what_torch_users_know():
    """Y = x Wᵀ + alpha / r · x Aᵀ Bᵀ, A (r, in), B (out, r)."""
    graph, feeds = FORMS["of torch's Linear"]()
    adapted = drawn(graph.adapters(2, "*.weight", alpha=4))
    a, b = (adapted.parameters[f"layer.lora_{n}.weight"] for n in "AB")
    assert (a.shape, b.shape) == ((2, 3), (4, 2))
    x = feeds["x"]
    expected = x @ graph.parameters["layer.weight"].T + graph.parameters["layer.bias"] + 2 * x @ a.T @ b.T
    np.testing.assert_array_equal(result(adapted, **feeds), expected)


def test_a_is_drawn_by_the_seed_and_b_is_zero():
    graph, _ = FORMS["a matrix"]()
    first, again, other = (graph.adapters(8, "*", seed=n).parameters for n in (3, 3, 4))
    np.testing.assert_array_equal(first["layer.lora_A.weight"], again["layer.lora_A.weight"])
    assert not np.array_equal(first["layer.lora_A.weight"], other["layer.lora_A.weight"])
    assert not first["layer.lora_B.weight"].any()
    assert np.abs(first["layer.lora_A.weight"]).max() <= 1 / np.sqrt(3)


def tied():
    """An embedding that is the last layer's weights as well."""
    graph = og.Graph()
    words = graph.input("x", "s64", [2])
    table = graph.parameter(whole(5, 3), name="table.weight")
    graph.matmul(graph.op("HostGather", table, words, axis=0), table, transpose_b=True, name="y")
    return graph, {"x": np.array([1, 4])}


def test_an_embedding_stays_as_it_is_where_its_other_use_is_merged():
    graph, feeds = tied()
    adapted = drawn(graph.adapters(2, "table.weight"))
    merged = adapted.merge_adapters()
    np.testing.assert_array_equal(result(merged, **feeds), result(adapted, **feeds))
    np.testing.assert_array_equal(merged.constants["table.weight"], graph.parameters["table.weight"])


def test_weights_that_are_read_twice_have_one_adapter():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3])
    w = graph.parameter(whole(3, 3), name="w")
    graph.matmul(graph.relu(graph.matmul(x, w)), w, name="y")
    adapted = drawn(graph.adapters(2, "w"))
    assert set(adapted.parameters) == {"w.lora_A.weight", "w.lora_B.weight"}
    feeds = {"x": whole(2, 3)}
    merged = adapted.merge_adapters()
    assert set(merged.constants) == {"w"}
    np.testing.assert_array_equal(result(merged, **feeds), result(adapted, **feeds))


# --- training -------------------------------------------------------------------------------------------


def network():
    graph = og.Graph()
    x, target = graph.input("x", "f32", [8, 6]), graph.input("target", "f32", [8, 2])
    rng = np.random.default_rng(1)

    def weights(*shape, name):
        return graph.parameter((rng.standard_normal(shape) / 3).astype(np.float32), name=name)

    hidden = graph.tanh(
        graph.matmul(x, weights(16, 6, name="up.weight"), weights(16, name="up.bias"), transpose_b=True)
    )
    y = graph.matmul(
        hidden, weights(2, 16, name="down.weight"), weights(2, name="down.bias"), transpose_b=True, name="y"
    )
    return graph, graph.reduce_mean(graph.squared_difference(y, target), axes=[0, 1])


def test_only_adapters_are_trained_and_no_gradient_of_other_weights_is_made():
    graph, loss = network()
    adapted = graph.adapters(2, ["up.weight", "down.weight"], trained="down.bias")
    names = {t.name for t in trainable(adapted)}
    assert names == {f"{m}.lora_{n}.weight" for m in ("up", "down") for n in "AB"} | {"down.bias"}
    sizes = sum(a.size for a in adapted.parameters.values())
    assert sizes == 2 * (6 + 16) + 2 * (16 + 2) + 2
    before = len(adapted.ops)
    found = adapted.gradients(adapted.tensor(loss.id), trainable(adapted))
    made = {t.dims for op in adapted.ops[before:] for t in op.outputs}
    assert (16, 6) not in made  # the shape of a gradient of the base's weights
    assert all(t is not None for t in found)


def test_training_is_that_of_torch_in_double_precision():
    torch = pytest.importorskip("torch")
    graph, loss = network()
    base = {name: torch.tensor(a.astype(np.float64)) for name, a in graph.parameters.items()}
    adapted = graph.adapters(2, "*.weight", alpha=3, seed=5)
    mine = {
        name: torch.tensor(a.astype(np.float64), requires_grad=True) for name, a in adapted.parameters.items()
    }
    trainer = og.training.Trainer(adapted, loss, og.training.AdamW(0.05))
    optimizer = torch.optim.AdamW(mine.values(), lr=0.05, weight_decay=trainer.optimizer.weight_decay)

    def dense(x, name):
        a, b = mine[f"{name}.lora_A.weight"], mine[f"{name}.lora_B.weight"]
        return x @ base[f"{name}.weight"].T + base[f"{name}.bias"] + 1.5 * (x @ a.T @ b.T)

    rng = np.random.default_rng(2)
    for _ in range(8):
        x, target = (
            rng.standard_normal((8, 6)).astype(np.float32),
            rng.standard_normal((8, 2)).astype(np.float32),
        )
        got = trainer.step({"x": x, "target": target})
        optimizer.zero_grad()
        out = dense(torch.tanh(dense(torch.tensor(x).double(), "up")), "down")
        its = (out - torch.tensor(target)).square().mean()
        its.backward()
        optimizer.step()
        np.testing.assert_allclose(float(got), its.item(), rtol=2e-5)
    for name, tensor in mine.items():
        np.testing.assert_allclose(adapted.parameters[name], tensor.detach().numpy(), atol=2e-5)
    for name in ("up.weight", "down.bias"):
        np.testing.assert_array_equal(adapted.constants[name], graph.parameters[name])
    merged = adapted.merge_adapters().for_inference(["y"])
    np.testing.assert_allclose(merged.compile()({"x": x})["y"], by_hand(adapted, x), atol=1e-5)


def by_hand(adapted, x):
    held = {**adapted.constants, **adapted.parameters}

    def dense(values, name):
        low = values @ held[f"{name}.lora_A.weight"].T @ held[f"{name}.lora_B.weight"].T
        return values @ held[f"{name}.weight"].T + held[f"{name}.bias"] + 1.5 * low

    return dense(np.tanh(dense(x.astype(np.float64), "up")), "down")


def test_the_adapters_alone_are_saved_and_handed_back(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    graph, _ = network()
    trained = drawn(graph.adapters(2, "*.weight"))
    safetensors.save_file(dict(trained.parameters), tmp_path / "adapters.safetensors")
    other = graph.adapters(2, "*.weight", seed=9)
    other.set_parameters(safetensors.load_file(tmp_path / "adapters.safetensors"))
    for name, array in trained.parameters.items():
        np.testing.assert_array_equal(other.parameters[name], array)
    assert sum(a.nbytes for a in trained.parameters.values()) < sum(
        a.nbytes for a in graph.parameters.values()
    )


def test_moving_statistics_go_on_moving():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 3, 5])
    w = graph.parameter(whole(6, 3, 1), name="conv.weight")
    mean, variance = (
        graph.parameter(np.full(6, n, np.float32), name=name) for n, name in ((0, "mean"), (1, "variance"))
    )
    flat = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
    made = graph.convolution(x, w, weights_format="OIX", **flat)
    y, new_mean, new_variance, *_ = graph.batch_norm_forward_training(
        made, mean, variance, epsilon=1e-5, momentum=0.5, data_format="NCX"
    )
    graph.assign(mean, new_mean)
    graph.assign(variance, new_variance)
    graph.output(y, name="y")
    adapted = graph.adapters(2, "conv.*")
    assert {"mean", "variance"} < set(adapted.parameters)
    assert [t.name for t in trainable(adapted)] == ["conv.lora_A.weight", "conv.lora_B.weight"]
    adapted.compile()({"x": whole(4, 3, 5)})
    assert adapted.parameters["mean"].any()
    assert not graph.parameters["mean"].any()
    assert {"mean", "variance"} == set(adapted.merge_adapters().parameters)


def test_in_bf16():
    """Weights of bf16 with adapters of f32, and adapters in a step of bf16."""
    graph, feeds = FORMS["of torch's Linear"]()
    narrow = graph.for_inference(["y"]).to("bf16").adapters(2, "layer.weight*")
    assert {str(a.dtype) for a in narrow.parameters.values()} == {"float32"}
    drawn(narrow)
    np.testing.assert_allclose(
        result(narrow.merge_adapters(), **feeds), result(narrow, **feeds), rtol=0.05, atol=0.5
    )


# --- errors ---------------------------------------------------------------------------------------------


def grouped():
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 4, 4, 4])
    w = graph.parameter(whole(4, 2, 3, 3), name="conv.weight")
    flat = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    graph.convolution(x, w, groups=2, data_format="NCX", weights_format="OIX", **flat)
    return graph


REFUSED = {
    "no rank": (lambda g: g.adapters(0, "*"), og.ArgumentError, "rank must be an integer from 1 on, got 0"),
    "half a rank": (lambda g: g.adapters(1.5, "*"), og.ArgumentError, "rank must be an integer"),
    "fits nothing": (
        lambda g: g.adapters(2, ["*.weight", "q_proj*"]),
        og.ArgumentError,
        "has 'q_proj\\*', which fits no",
    ),
    "no weights": (
        lambda g: g.adapters(2, "*.bias"),
        og.ArgumentError,
        "no weights of a MatMul or Convolution",
    ),
    "no pattern": (lambda g: g.adapters(2, 3), og.ArgumentTypeError, "must be a name, a pattern of names"),
    "trained nothing": (
        lambda g: g.adapters(2, "*", trained="head"),
        og.ArgumentError,
        "trained has 'head', which fits no",
    ),
    "a word of a name": (
        lambda g: g.adapters(2, "up"),
        og.ArgumentError,
        r"'up', which fits no .* .did you mean '\*up\*'\?.; there are 'up.weight', 'down.weight'$",
    ),
    "a word that is misspelled": (
        lambda g: g.adapters(2, "Dwon"),
        og.ArgumentError,
        r"did you mean '\*down\*'",
    ),
    "adapters on adapters": (
        lambda g: g.adapters(2, "up.weight").adapters(2, "*"),
        og.ArgumentError,
        r"has adapters already, 'up.lora_A.weight'; call merge_adapters\(\) first",
    ),
    "groups": (lambda g: grouped().adapters(2, "*"), og.UnsupportedError, "'conv.weight' .* has groups"),
    "nothing to merge": (lambda g: g.merge_adapters(), og.ArgumentError, "has no adapters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call(network()[0])


@pytest.mark.parametrize("scale", [1.0, [2.0], [1.0, 2.0, 1.0, 2.0]], ids=["none", "one", "of each channel"])
def test_products_that_have_such_names_are_weights_as_others(scale):
    """An imported model with an adapter, which multiplies its product or has it apart: it goes on as it is."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3])
    base = graph.matmul(x, graph.parameter(whole(3, 4), name="layer.weight"))
    down = graph.matmul(x, graph.parameter(whole(2, 3), name="layer.lora_A.weight"), transpose_b=True)
    up = graph.matmul(down, graph.parameter(whole(4, 2), name="layer.lora_B.weight"), transpose_b=True)
    factor = graph.constant(np.asarray(scale, np.float32))
    graph.add(graph.multiply(up, factor), base, name="y")
    given = whole(2, 3)
    before = result(graph, x=given)
    adapted = drawn(graph.adapters(2, "layer.weight"))
    added = (
        given @ (adapted.parameters["layer.lora_B.weight_"] @ adapted.parameters["layer.lora_A.weight_"]).T
    )
    np.testing.assert_array_equal(result(adapted, x=given), before + added)
    np.testing.assert_array_equal(result(adapted.merge_adapters(), x=given), before + added)
