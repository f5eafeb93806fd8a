"""NumPy for nodes over sequences: recurrent layers with lengths of their own for each row, and short-time spectra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ...ops.values import format_value
from ..importing.recurrent import GATES
from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array
from .calls import Call
from .recurrent import USUAL
from .scores import logistic

Function = Callable[[Array], Array]


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _affine(x: Array, alpha: float, beta: float) -> Array:
    return alpha * x + beta


def _leaky(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * x, x)


def _thresholded(x: Array, alpha: float) -> Array:
    return np.where(x > alpha, x, 0)


def _scaled(x: Array, alpha: float, beta: float) -> Array:
    return alpha * np.tanh(beta * x)


def _hard(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def _tanh(x: Array) -> Array:
    return np.tanh(x)


FUNCTIONS: Mapping[str, Function] = {
    "relu": _relu,
    "sigmoid": logistic,
    "softplus": _softplus,
    "softsign": _softsign,
    "tanh": _tanh,
}
"""Functions of gates that have no numbers."""
WITH_NUMBERS: Mapping[str, tuple[Callable[..., Array], Sequence[float | None]]] = {
    "affine": (_affine, (None, None)),
    "elu": (_elu, (1.0,)),
    "hardsigmoid": (_hard, (0.2, 0.5)),
    "leakyrelu": (_leaky, (0.01,)),
    "scaledtanh": (_scaled, (None, None)),
    "thresholdedrelu": (_thresholded, (1.0,)),
}
"""Functions of gates with alpha, or alpha and beta, and what these are where a node gives none, as ONNX's ops of the
same names have them; None where it has no such op."""


def recurrent(call: Call) -> list[Array]:
    """LSTM, GRU and RNN, step by step: all outputs, the last ones, and the last cells of an LSTM.

    Raises:
        Unmapped: attributes that are not known, or sizes that don't fit.
    """
    batch_first = bool(call.get("layout", 0))
    x: Array = np.swapaxes(call[0], 0, 1) if batch_first else call[0]
    direction = call.get("direction", "forward")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if ways is None:
        raise Unmapped(f"a direction {format_value(direction)}")
    width = call[2].shape[-1]
    rows = GATES[call.kind] * width
    shapes = [(len(ways), rows, x.shape[-1]), (len(ways), rows, width)]
    if (
        width < 1
        or x.ndim != 3
        or [call[1].shape, call[2].shape] != shapes
        or call.get("hidden_size", width) != width
    ):
        raise Unmapped(
            f"weights of {list(call[1].shape)} and {list(call[2].shape)} for an input of {list(x.shape)}"
        )
    length, batch = x.shape[:2]
    given = call.optional(4)
    lengths = np.full(batch, length) if given is None else np.asarray(given).astype(np.int64)
    if lengths.shape != (batch,) or ((lengths < 0) | (lengths > length)).any():
        raise Unmapped(f"lengths of sequences must be {batch} numbers from 0 to {length}")
    check_room((length, len(ways), batch, width), np.dtype(np.float32), call.limit)
    every = np.zeros((length, len(ways), batch, width), np.float32)
    last: list[list[Array]] = []
    times, across = np.indices((length, batch))
    turned: Array = np.where(times < lengths, lengths - 1 - times, times)
    for way, backwards in enumerate(ways):
        places = turned if backwards else times
        made, states = _one_way(call, x[places, across].astype(np.float32), lengths, way, batch_first)
        every[places, way, across] = made
        last.append(states)
    ends = [np.stack([states[n] for states in last]) for n in range(len(last[0]))]
    if batch_first:
        every = np.transpose(every, (2, 0, 1, 3))
        ends = [np.swapaxes(end, 0, 1) for end in ends]
    return [value.astype(x.dtype) for value in (every, *ends)]


def _one_way(call: Call, x: Array, lengths: Array, way: int, batch_first: bool) -> tuple[Array, list[Array]]:
    """All outputs of a direction, and its last states."""
    width, batch = call[2].shape[-1], x.shape[1]
    gates = GATES[call.kind]
    w, r = call[1][way].astype(np.float32), call[2][way].astype(np.float32)
    bias = np.zeros((2, gates * width), np.float32)
    if call.optional(3) is not None:
        bias = call[3][way].astype(np.float32).reshape(2, -1)
    linear = call.kind == "GRU" and bool(call.get("linear_before_reset", 0))
    state = [_start(call, 5 + n, way, (batch, width), batch_first) for n in range(2 if gates == 4 else 1)]
    functions = _functions(call, way)
    limit = call.get("clip")
    products = x @ w.T + bias[0]
    every = np.zeros((*x.shape[:2], width), np.float32)
    peep = call.optional(7)
    weights = (
        np.zeros((3, width), np.float32) if peep is None else peep[way].astype(np.float32).reshape(3, width)
    )

    def clipped(value: Array) -> Array:
        return value if limit is None else np.clip(value, -limit, limit)

    plain = (
        peep is None and limit is None and not call.get("input_forget", 0) and bool((lengths >= len(x)).all())
    )
    if (
        call.kind == "LSTM"
        and plain
        and functions == [FUNCTIONS[name] for name in ("sigmoid", "tanh", "tanh")]
    ):
        return every, _usual_lstm(products + bias[1], state, r, every)
    with np.errstate(over="ignore"):
        for step in range(len(x)):
            h = state[0]
            if call.kind == "LSTM":
                new = _lstm(call, products[step] + h @ r.T + bias[1], state[1], functions, weights, clipped)
            elif call.kind == "GRU":
                new = _gru(products[step], h, r, bias[1], functions, clipped, linear=linear)
            else:
                new = [functions[0](clipped(products[step] + h @ r.T + bias[1]))]
            there = (step < lengths)[:, None]
            state = [np.where(there, a, b) for a, b in zip(new, state, strict=True)]
            every[step] = np.where(there, new[0], 0)
    # A sequence of no steps has no last one: onnxruntime gives zeros, not the state that it would begin with.
    return every, [np.where((lengths > 0)[:, None], one, 0) for one in state]


def _lstm(
    call: Call, sums: Array, cell: Array, functions: list[Function], peep: Array, clipped: Function
) -> list[Array]:
    i, o, f, c = np.split(sums, 4, axis=1)
    inner, outer, last = functions
    entering = inner(clipped(i + peep[0] * cell))
    kept = 1 - entering if call.get("input_forget", 0) else inner(clipped(f + peep[2] * cell))
    cell = kept * cell + entering * outer(clipped(c))
    return [inner(clipped(o + peep[1] * cell)) * last(cell), cell]


def _usual_lstm(products: Array, state: list[Array], r: Array, every: Array) -> list[Array]:
    """The last states of the LSTM that everybody has, and into `every` its outputs, with no array made at a step.

    A step is a handful of small operations, whose cost is that of calling NumPy: gates are one array, and
    1 / (1 + exp(-x)) is (1 + tanh(x / 2)) / 2 of three of them at once.
    """
    h, cell = state[0], np.array(state[1])
    width = h.shape[1]
    factor = np.full(4 * width, 0.5, np.float32)
    factor[3 * width :] = 1
    turned = np.ascontiguousarray(r.T * factor)
    products = products * factor
    sums, fresh = np.empty_like(products[0]) if len(products) else h, np.empty_like(h)
    gates = sums[:, : 3 * width]
    i, o, f, c = (sums[:, gate * width : (gate + 1) * width] for gate in range(4))
    for product, output in zip(products, every, strict=True):
        np.matmul(h, turned, out=sums)
        np.add(sums, product, out=sums)
        np.tanh(sums, out=sums)
        np.multiply(gates, 0.5, out=gates)
        np.add(gates, 0.5, out=gates)
        np.multiply(i, c, out=fresh)
        np.multiply(cell, f, out=cell)
        np.add(cell, fresh, out=cell)
        np.tanh(cell, out=fresh)
        np.multiply(o, fresh, out=output)
        h = output
    return [np.array(h), cell]


def _gru(
    product: Array,
    h: Array,
    r: Array,
    bias: Array,
    functions: list[Function],
    clipped: Function,
    *,
    linear: bool,
) -> list[Array]:
    width = h.shape[1]
    sums = product[:, : 2 * width] + h @ r[: 2 * width].T + bias[: 2 * width]
    update, reset = np.split(functions[0](clipped(sums)), 2, axis=1)
    own, more = r[2 * width :].T, bias[2 * width :]
    inside = reset * (h @ own + more) if linear else (reset * h) @ own + more
    new = functions[1](clipped(product[:, 2 * width :] + inside))
    return [(1 - update) * new + update * h]


def _start(call: Call, place: int, way: int, shape: tuple[int, int], batch_first: bool) -> Array:
    given = call.optional(place)
    if given is None:
        return np.zeros(shape, np.float32)
    value = np.swapaxes(given, 0, 1) if batch_first else np.asarray(given)
    if value.shape[1:] != shape:
        raise Unmapped(f"first states of {list(value.shape)} for {list(shape)}")
    return value[way].astype(np.float32)


def _functions(call: Call, way: int) -> list[Function]:
    """The functions of a direction. Those that have numbers take the node's one after the other."""
    usual = USUAL[call.kind]
    names = list(call.get("activations") or list(usual) * (way + 1))[: (way + 1) * len(usual)]
    numbers = [iter(call.get(f"activation_{name}") or ()) for name in ("alpha", "beta")]
    if len(names) < (way + 1) * len(usual):
        raise Unmapped(f"{len(names)} functions of gates for {len(usual)} of each direction")
    found: list[Function] = []
    for name in (str(name).lower() for name in names):
        if name in WITH_NUMBERS:
            function, standard = WITH_NUMBERS[name]
            given = [next(of, usually) for of, usually in zip(numbers, standard, strict=False)]
            known = [number for number in given if number is not None]
            if len(known) < len(given):
                raise Unmapped(f"the function {name!r} of gates without its numbers")
            found.append(partial(function, **dict(zip(("alpha", "beta"), known, strict=False))))
        elif name in FUNCTIONS:
            found.append(FUNCTIONS[name])
        else:
            raise Unmapped(f"the function {name!r} of gates")
    return found[-len(usual) :]


def spectra(call: Call) -> list[Array]:
    """STFT: the spectrum of each frame of a signal, real and imaginary parts last.

    Raises:
        Unmapped: frames that the signal has none of.
    """
    x, step = call[0], int(np.reshape(call[1], ()))
    window, size = call.optional(2), call.optional(3)
    x = x[..., None] if x.ndim == 2 else x
    if x.ndim != 3 or x.shape[-1] not in (1, 2) or x.dtype.kind != "f":
        raise Unmapped(f"a signal of {x.dtype} and shape {list(x.shape)}")
    length = x.shape[1] if window is None else int(np.size(window))
    length = length if size is None else int(np.reshape(size, ()))
    onesided = bool(call.get("onesided", 1))
    if step < 1 or not 0 < length <= x.shape[1] or (window is not None and np.size(window) != length):
        raise Unmapped(f"frames of {length} elements, {step} apart, of a signal of {x.shape[1]}")
    if onesided and x.shape[-1] == 2:
        raise Unmapped("one side of the spectrum of a complex signal")
    count = 1 + (x.shape[1] - length) // step
    check_room((len(x), count, length, 2), np.dtype(np.complex128), call.limit)
    signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    frames = np.lib.stride_tricks.sliding_window_view(signal, length, axis=1)[:, ::step]
    weighted = frames if window is None else frames * window
    made = np.fft.rfft(weighted) if onesided else np.fft.fft(weighted)
    return [np.stack([made.real, made.imag], -1).astype(x.dtype)]
