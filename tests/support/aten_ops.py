"""What ATen's ops become: translations are called for nodes of traced samples, and the ops that they add are read.

Samples are torch's own of each operator, forward and backward, and a few for what these do not reach.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from onednn_graph.graph.aten.schema import bound, numpy_type_of, translation_of
from onednn_graph.graph.aten.table import AUTOGRAD, TABLE, TRAINING
from onednn_graph.graph.importing.translation import Translation
from onednn_graph.graph.runtime.arrays import data_type_of
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

TABLES = (TABLE, TRAINING, AUTOGRAD)
TYPES = (torch.float32, torch.int64)
REAL, WHOLE = "real", "whole"
"""Numbers with a fraction, and integers and truths."""
SAMPLES, EVERY = 6, 3
"""Of each operator and type so many samples are looked at, each third one."""
aten = torch.ops.aten
Becomes = dict[tuple[str, str], set[str]]
"""Op, and whether one of its tensors is real → kinds of ops that it becomes."""


def _more() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Calls that torch's samples do not have."""
    x, image, flags = torch.ones(2, 3), torch.ones(2, 4, 6, 6), torch.ones(2, 3, dtype=torch.bool)
    numbers, gate = torch.ones(2, 3, dtype=torch.int64), torch.ones(4)
    for sign in ("and", "or", "xor"):
        yield getattr(aten, f"__{sign}__").Tensor, (flags, flags)
        yield getattr(aten, f"__{sign}__").Scalar, (numbers, 3)
        yield getattr(aten, f"bitwise_{sign}").Scalar, (numbers, 3)
    yield aten.clamp.default, (x, 0.0, 1.0)
    yield aten.clamp_max.default, (x, 1.0)
    yield aten.softplus.default, (x,)
    yield aten.softplus_backward.default, (x, x, 1.0, 20.0)
    yield aten.fill.Tensor, (x, torch.tensor(1.0))
    yield aten.where.ScalarOther, (flags, x, 0.0)
    yield aten.where.ScalarSelf, (flags, 0.0, x)
    yield aten.contiguous.default, (x,)
    yield aten.detach_copy.default, (x,)
    yield aten.type_as.default, (x, numbers)
    yield aten.copy.default, (x, x)
    yield aten.div.Scalar_mode, (x, 2.0)
    yield aten.fmod.Scalar, (x, 2.0)
    for name in ("any", "all"):
        yield getattr(aten, name).dims, (flags, [0, 1])
    yield aten.all.dim, (flags, 0)
    for name, rank in itertools.product(("reflection_pad", "replication_pad"), (2, 3)):
        yield getattr(aten, f"{name}{rank}d").default, (torch.ones(1, 2, *[4] * rank), [1] * 2 * rank)
    for rank in (1, 2, 3):
        data, large = torch.ones(1, 2, *[4] * rank), torch.ones(1, 2, *[8] * rank)
        op = getattr(aten, f"upsample_nearest{rank}d")
        yield op.default, (data, [8] * rank)
        yield op.vec, (data, [8] * rank, None)
        yield getattr(aten, f"upsample_nearest{rank}d_backward").default, (large, [8] * rank, data.shape)
    yield aten._adaptive_avg_pool2d_backward.default, (torch.ones(2, 4, 3, 3), image)
    yield aten._native_batch_norm_legit_no_training.default, (image, gate, gate, gate, gate, 0.1, 1e-5)
    yield aten._native_batch_norm_legit_functional.default, (image, gate, gate, gate, gate, True, 0.1, 1e-5)
    yield aten._native_batch_norm_legit.no_stats, (image, gate, gate, True, 0.1, 1e-5)
    heads = torch.ones(1, 2, 8, 4)
    yield aten._scaled_dot_product_flash_attention_for_cpu.default, (heads, heads, heads)
    yield aten.native_dropout.default, (x, 0.5, True)
    yield aten.bernoulli.p, (x, 0.5)
    state, step = torch.ones(1, 2, 3), torch.ones(4, 2, 5)
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        weights = [torch.ones(gates * 3, 5), torch.ones(gates * 3, 3), *[torch.ones(gates * 3)] * 2]
        first = [state, state] if name == "lstm" else state
        yield getattr(aten, name).input, (step, first, weights, True, 1, 0.0, False, False, False)


def _traced(function: Callable[..., Any], given: Any, *, before: bool) -> torch.fx.GraphModule:
    """A call as a graph: before autograd and decompositions, or behind both, with gradients."""
    flat, structure = pytree.tree_flatten(given)
    tensors = [one for one in flat if isinstance(one, torch.Tensor)]

    def call(*values: torch.Tensor) -> Any:
        each = iter(values)
        filled = [next(each) if isinstance(one, torch.Tensor) else one for one in flat]
        args, named = pytree.tree_unflatten(filled, structure)
        made = function(*args, **named)
        results = [
            one for one in pytree.tree_leaves(made) if isinstance(one, torch.Tensor) and one.requires_grad
        ]
        wanted = [one for one in values if one.requires_grad]
        if before or not results or not wanted:
            return made
        return made, torch.autograd.grad([one.sum() for one in results], wanted, allow_unused=True)

    return make_fx(call, pre_dispatch=before, tracing_mode="fake")(*tensors)


def _read(graph: torch.fx.GraphModule, becomes: Becomes) -> None:
    """What the nodes of a graph become."""
    for node in graph.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        for table in TABLES:
            translate = translation_of(table, node.target)
            if translate is not None:
                name = str(node.target)
                key = name if name in table else name.rpartition(".")[0]
                _translated(node, translate, becomes, key)


def _translated(node: torch.fx.Node, translate: Callable[..., Any], becomes: Becomes, name: str) -> None:
    t = Translation()
    t.label = "op"
    types: list[str] = []

    def argument(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            value = value.meta["val"]
        if isinstance(value, torch.Tensor):
            types.append(REAL if value.dtype.is_floating_point else WHOLE)
            data_type = data_type_of(np.empty(0, numpy_type_of(value.dtype)))
            return t.input(t.free_name("x"), data_type, list(value.shape))
        return [argument(one) for one in value] if isinstance(value, list | tuple) else value

    try:
        translate(t, *[argument(one) for one in bound(node.target, node.args, node.kwargs)])
    except Exception:  # arguments or types that it doesn't take: torch's own samples have many
        return
    kinds = becomes.setdefault((name, WHOLE if WHOLE in types and REAL not in types else REAL), set())
    kinds.update(op.kind for op in t.graph.ops)


def becomes(operators: Sequence[Any] = op_db, more: Sequence[Any] | None = None) -> Becomes:
    """What each op with a translation becomes, as far as samples of these operators reach it."""
    result: Becomes = {}
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # samples that can't be traced
    for operator in operators:
        for dtype in TYPES:
            if dtype not in operator.supported_dtypes("cpu"):
                continue
            graded = dtype.is_floating_point and operator.supports_autograd
            samples = operator.sample_inputs("cpu", dtype, requires_grad=graded)
            samples = itertools.islice(samples, 0, SAMPLES * EVERY, EVERY)
            for sample, before in itertools.product(list(samples), (False, True)):
                given = ((sample.input, *sample.args), sample.kwargs)
                _trace_and_read(operator, given, before, result)
    for function, args in _more() if more is None else more:
        _trace_and_read(function, (args, {}), True, result)
    return result


def _trace_and_read(function: Any, given: Any, before: bool, result: Becomes) -> None:
    try:
        graph = _traced(function, given, before=before)
    except Exception:  # whatever torch can't trace
        return
    _read(graph, result)


def kinds_by_op(found: Becomes) -> Mapping[str, Mapping[str, set[str]]]:
    """Op → real or whole → kinds."""
    result: dict[str, dict[str, set[str]]] = {}
    for (name, numbers), kinds in found.items():
        result.setdefault(name, {})[numbers] = kinds
    return result
