"""`from_onnx`: attention of onnxruntime's own domain, by formulas in double precision."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import helper, model_of, normal

MS = "com.microsoft"
BATCH, HEADS, EACH = 2, 4, 6
WIDTH = HEADS * EACH


def run(kind, inputs, outputs, **attributes):
    """The outputs of one node; inputs that are None are not there."""
    given = {name: value for name, value in inputs.items() if value is not None}
    names = [name if value is not None else "" for name, value in inputs.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(kind, names, outputs, domain=MS, **attributes)
    model = model_of([node], given, outputs, opset=17)
    model.opset_import.append(helper.make_opsetid(MS, 1))
    made = og.from_onnx(model).compile()(given)
    return [made[name].astype("f8") for name in outputs]


def by_heads(x, heads=HEADS):
    return x.astype("f8").reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, bias=0.0, scale=None):
    """(batch, queries, heads · each) of factors (batch, heads, length, each)."""
    scores = q @ k.swapaxes(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    y = (powers / powers.sum(-1, keepdims=True)) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def causal(queries, keys):
    return np.where(np.arange(keys) > np.arange(keys - queries, keys)[:, None], -np.inf, 0.0)


Q, K, V = normal(BATCH, 5, WIDTH), normal(BATCH, 7, WIDTH, seed=1), normal(BATCH, 7, WIDTH, seed=2)
PAST = [normal(BATCH, HEADS, 3, EACH, seed=seed) for seed in (3, 4)]


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("biased", [False, True])
def test_several_heads(biased, scale):
    bias = normal(3 * WIDTH, seed=5) if biased else None
    more = normal(1, HEADS, 5, 7, seed=6) if biased else None
    inputs = {"q": Q, "k": K, "v": V, "bias": bias, "padding": None, "more": more}
    (y,) = run(
        "MultiHeadAttention", inputs, ["y"], num_heads=HEADS, **({} if scale is None else {"scale": scale})
    )
    parts = np.split(np.zeros(3 * WIDTH) if bias is None else bias, 3)
    q, k, v = (by_heads(x + part) for x, part in zip((Q, K, V), parts, strict=True))
    np.testing.assert_allclose(y, attended(q, k, v, 0 if more is None else more, scale), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_several_heads_that_go_on(unidirectional):
    inputs = {"q": Q, "k": Q, "v": V[:, :5], "b": None, "p": None, "m": None, "pk": PAST[0], "pv": PAST[1]}
    outputs = ["y", "keys", "values"]
    y, keys, values = run(
        "MultiHeadAttention", inputs, outputs, num_heads=HEADS, unidirectional=unidirectional
    )
    k, v = (np.concatenate([p, by_heads(x)], 2) for p, x in zip(PAST, (Q, V[:, :5]), strict=True))
    np.testing.assert_allclose(keys, k, rtol=1e-6)
    np.testing.assert_allclose(values, v, rtol=1e-6)
    bias = causal(5, 8) if unidirectional else 0.0
    np.testing.assert_allclose(y, attended(by_heads(Q), k, v, bias), rtol=1e-4, atol=1e-5)


def test_all_of_it_from_one_product_with_lengths():
    weights, bias = normal(WIDTH, 3 * WIDTH, seed=7) / WIDTH**0.5, normal(3 * WIDTH, seed=8)
    lengths = np.int32([3, 5])
    inputs = {"x": Q, "w": weights, "b": bias, "lengths": lengths}
    (y,) = run("Attention", inputs, ["y"], num_heads=HEADS)
    q, k, v = map(by_heads, np.split(Q.astype("f8") @ weights + bias, 3, -1))
    hidden = np.where(np.arange(5) < lengths[:, None], 0.0, -10000.0)[:, None, None]
    np.testing.assert_allclose(y, attended(q, k, v, hidden), rtol=1e-4, atol=1e-5)


def turned(x, cos, sin, places):
    """Queries or keys (batch, heads, length, each) turned by the angles of their places."""
    c, s = (one[places][:, None].astype("f8") for one in (cos, sin))
    first, second = np.split(x, 2, -1)
    return np.concatenate([first * c - second * s, second * c + first * s], -1)


ANGLES = normal(16, EACH // 2, seed=9)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


def test_what_is_turned_by_its_place():
    places = np.tile(np.arange(2, 7), (BATCH, 1))
    inputs = {"x": Q, "places": places, "cos": COS, "sin": SIN}
    (y,) = run("RotaryEmbedding", inputs, ["y"], num_heads=HEADS)
    want = turned(by_heads(Q), COS, SIN, places).transpose(0, 2, 1, 3).reshape(Q.shape)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [-1, 2])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [0, 1])
def test_groups_of_heads_that_share_keys_in_rows_of_their_own_lengths(rotary, packed, window):
    own, past = 2, [normal(BATCH, 2, 9, EACH, seed=seed) for seed in (10, 11)]
    x, k, v = Q[:, :1], K[:, :1, : own * EACH], V[:, :1, : own * EACH]
    ends = np.array([4, 8])  # what each row has, with the new one
    inputs = {
        "x": np.concatenate([x, k, v], -1) if packed else x,
        "k": None if packed else k,
        "v": None if packed else v,
        "past_k": past[0],
        "past_v": past[1],
        "lengths": (ends - 1).astype(np.int32),
        "total": np.int32(8),
        "cos": COS if rotary else None,
        "sin": SIN if rotary else None,
    }
    attributes = {"num_heads": HEADS, "kv_num_heads": own, "do_rotary": rotary, "local_window_size": window}
    y, keys, values = run("GroupQueryAttention", inputs, ["y", "keys", "values"], **attributes)
    for row, end in enumerate(ends):
        one = slice(row, row + 1)
        q, new_k, new_v = by_heads(x[one]), by_heads(k[one], own), by_heads(v[one], own)
        if rotary:
            q, new_k = (turned(a, COS, SIN, np.array([[end - 1]])) for a in (q, new_k))
        whole = [
            np.concatenate([p[one, :, : end - 1], new], 2)
            for p, new in zip(past, (new_k, new_v), strict=True)
        ]
        np.testing.assert_allclose(keys[one, :, :end], whole[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(values[one, :, :end], whole[1], rtol=1e-4, atol=1e-5)
        shared = [np.repeat(a, HEADS // own, 1) for a in whole]
        seen = np.where(np.arange(end) > end - 1 - window, 0.0, -np.inf) if window > 0 else 0.0
        np.testing.assert_allclose(y[one], attended(q, *shared, seen), rtol=1e-4, atol=1e-5)
