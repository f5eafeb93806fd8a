"""One layer in one layout and data type, and everybody who can compute its weight gradient."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onednn_graph as og
from onednn_graph.backends.native.graph import NativeGraph
from onednn_graph.backends.onednn.library.enumerators import Arg
from onednn_graph.backends.onednn.library.implementations import is_reference
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.plan.chooser import Chooser
from onednn_graph.backends.onednn.plan.plan import Plan
from onednn_graph.backends.onednn.plan.steps import Buffer, Step
from onednn_graph.ops.data_types import DataType
from onednn_graph.tools.comparisons import interleaved
from onednn_graph.tools.layers import TRANSPOSED, Layer, attributes, flops, shapes

DTYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
Peer = tuple[Callable[[], None], Callable[[], np.ndarray]]
"""A call, and what gives its latest result in f32."""


class Case:
    """One layer in one data format and type: arrays, attributes and the peers' callables."""

    def __init__(self, layer: Layer, data_format: str, dtype: Any) -> None:
        rng = np.random.default_rng(0)
        self.layer, self.format = layer, data_format
        self.transposed = layer["op"] == TRANSPOSED
        *data, self.weights_shape = shapes(layer, data_format)
        self.src, self.diff_dst = (rng.integers(-2, 3, shape).astype(dtype) for shape in data)
        self.flops = flops(layer)
        self.attributes = attributes(layer, data_format)

    def ours(
        self, backend: str | None, tune: str | None = None
    ) -> tuple[Callable[[], None], np.ndarray, og.profiling.Explanation]:
        """A bound call and the array that it writes."""
        data_type = "bf16" if self.src.dtype.name == "bfloat16" else f"f{self.src.itemsize * 8}"
        src = og.LogicalTensor(0, data_type, self.src.shape)
        dst = og.LogicalTensor(1, data_type, self.diff_dst.shape)
        graph = og.Graph()
        out = og.LogicalTensor(2, data_type)
        graph.add_op(og.Op(0, self.layer["op"], [src, dst], [out], **self.attributes))
        graph.finalize()
        compiled = graph.get_partitions(backend=backend)[0].compile(tune=tune)
        result = np.empty(self.weights_shape, self.src.dtype)
        return compiled.bind([self.src, self.diff_dst], [result]), result, compiled.explain().only

    def native(self) -> Peer:
        """Native oneDNN Graph's first choice on the same memory."""
        out = np.empty(self.weights_shape, self.src.dtype)
        arrays = (self.src, self.diff_dst, out)
        tensors = [og.LogicalTensor(i, array.dtype, array.shape) for i, array in enumerate(arrays)]
        graph = og.Graph()
        graph.add_op(og.Op(0, self.layer["op"], tensors[:2], tensors[2:], **self.attributes))
        graph.finalize()
        call = NativeGraph.of(graph).bind({0: self.src, 1: self.diff_dst}, {2: out})
        return call, lambda: out.astype(np.float32)

    def torch(self, through_f32: bool = False) -> Peer:
        """Torch's weights-only backward on the same memory, channels_last for NXC.

        Args:
            through_f32: inputs are cast to f32 and the result back, in the call.
        """
        import torch

        def tensor(array: np.ndarray) -> Any:
            if array.dtype.name == "bfloat16":
                made = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            else:
                made = torch.from_numpy(array)
            return made.movedim(-1, 1) if self.format == "NXC" else made

        x, dy = tensor(self.src), tensor(self.diff_dst)
        layer, pads = self.layer, self.layer["pads_begin"]
        if layer["pads_begin"] != layer["pads_end"]:  # torch pads alike on both sides: pad before, untimed
            both = zip(reversed(layer["pads_begin"]), reversed(layer["pads_end"]), strict=True)
            x, pads = torch.nn.functional.pad(x, [v for pair in both for v in pair]), [0] * len(pads)
        w = torch.zeros(self.weights_shape, dtype=x.dtype)
        if self.format == "NXC" and w.ndim in (4, 5):
            w = w.to(memory_format=torch.channels_last if w.ndim == 4 else torch.channels_last_3d)
        latest: list[Any] = [None]

        def call() -> None:
            a, b, c = (t.float() for t in (dy, x, w)) if through_f32 else (dy, x, w)
            latest[0] = torch.ops.aten.convolution_backward(
                a,
                b,
                c,
                None,
                layer["strides"],
                pads,
                layer["dilations"],
                self.transposed,
                layer["output_padding"] if self.transposed else [0] * len(layer["kernel"]),
                layer["groups"],
                [False, True, False],
            )[1].to(x.dtype)

        return call, lambda: latest[0].float().numpy()

    def jax(self) -> Peer:
        """Jax's gradient of its convolution, compiled; a transposed one has its roles exchanged."""
        import jax

        layer, rank = self.layer, len(self.layer["kernel"])
        letters = "DHW"[3 - rank :]
        data = f"N{letters}C" if self.format == "NXC" else f"NC{letters}"
        x, dy = (self.diff_dst, self.src) if self.transposed else (self.src, self.diff_dst)
        x, dy, w = jax.numpy.asarray(x), jax.numpy.asarray(dy), jax.numpy.zeros(self.weights_shape, x.dtype)

        def forward(weights: Any, data_in: Any) -> Any:
            return jax.lax.conv_general_dilated(
                data_in,
                weights,
                layer["strides"],
                list(zip(layer["pads_begin"], layer["pads_end"], strict=True)),
                rhs_dilation=layer["dilations"],
                dimension_numbers=(data, f"OI{letters}", data),
                feature_group_count=layer["groups"],
            )

        gradient = jax.jit(lambda a, b: jax.vjp(lambda weights: forward(weights, a), w)[1](b)[0])
        latest: list[Any] = [None]

        def call() -> None:
            latest[0] = gradient(x, dy).block_until_ready()

        return call, lambda: np.asarray(latest[0]).astype(np.float32)


def ratio(theirs: list[float], ours: list[float]) -> tuple[float, float]:
    """How many times as long as ours, by the shortest times and by the medians."""
    return min(theirs) / min(ours), statistics.median(theirs) / statistics.median(ours)


def matmul_peak(dtype: str, size: int = 1536) -> float:
    """Flops per second of the library's own matrix product, as a yardstick."""
    engine, data_type = NativeEngine(), DataType(dtype)
    desc = MemoryDesc.strided(engine.lib, (size, size), data_type, (size, 1))
    primitive = Chooser(engine).matmul(desc, desc, desc)
    if primitive is None or is_reference(primitive.implementation):
        return float("nan")
    arguments = tuple((arg, Buffer(desc, i)) for i, arg in enumerate((Arg.SRC, Arg.WEIGHTS, Arg.DST)))
    plan = Plan(engine, [Step("matmul", primitive, arguments)])
    arrays = [np.ones((size, size), DTYPES[dtype]) for _ in range(3)]
    (times,) = interleaved([lambda: plan.run([a.ctypes.data for a in arrays])], 0.3)
    return 2 * size**3 / min(times)
