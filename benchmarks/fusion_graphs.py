"""Graphs of real sizes that `fusion.py` times: what networks repeat, from one op with its post-ops to whole blocks.

Weights, biases and factors per channel are `constant`; everything else changes from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onednn_graph as og
from attrs import frozen

FLOATS = ("f32", "bf16")
INT8 = ("int8",)
BATCH = 8


class Net:
    """A graph being built in one floating-point type; names are made up."""

    def __init__(self, dtype: str) -> None:
        self.graph = og.Graph()
        self.dtype = dtype
        self._count = 0

    def _input(self, shape: Sequence[int], dtype: str, property_type: str) -> og.LogicalTensor:
        self._count += 1
        return self.graph.input(f"input_{self._count}", dtype, shape, property_type=property_type)

    def data(self, *shape: int, dtype: str | None = None) -> og.LogicalTensor:
        """An input that changes."""
        return self._input(shape, dtype or self.dtype, "variable")

    def constant(self, *shape: int, dtype: str | None = None) -> og.LogicalTensor:
        """An input that stays the same."""
        return self._input(shape, dtype or self.dtype, "constant")

    def op(self, kind: str, *inputs: og.LogicalTensor, **attributes: Any) -> og.LogicalTensor:
        """An op with one output."""
        call: Callable[..., og.LogicalTensor] = self.graph.op
        return call(kind, *inputs, **attributes)

    def chain(self, x: og.LogicalTensor, *kinds: str) -> og.LogicalTensor:
        """Eltwise ops, one after another."""
        for kind in kinds:
            x = self.op(kind, x)
        return x

    def conv(
        self,
        x: og.LogicalTensor,
        channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        data_format: str = "NXC",
        groups: int = 1,
        bias: bool = True,
        weights: og.LogicalTensor | None = None,
    ) -> og.LogicalTensor:
        """A two-dimensional convolution, padded to keep the size where the stride is 1."""
        entering = x.dims[1 if data_format == "NCX" else -1]
        pads = [kernel // 2] * 2
        if weights is None:
            weights = self.constant(channels, entering // groups, kernel, kernel)
        operands = [x, weights, *([self.constant(channels)] if bias else [])]
        return self.op(
            "Convolution",
            *operands,
            strides=[stride] * 2,
            pads_begin=pads,
            pads_end=pads,
            dilations=[1, 1],
            groups=groups,
            data_format=data_format,
            weights_format="OIX",
        )

    def matmul(self, x: og.LogicalTensor, columns: int, *, bias: bool = True) -> og.LogicalTensor:
        """A product with constant weights."""
        operands = [
            x,
            self.constant(x.dims[-1], columns),
            *([self.constant(columns)] if bias else []),
        ]
        return self.op("MatMul", *operands)

    def quantized(self, *shape: int, zero: int = 0) -> og.LogicalTensor:
        """An input in u8 and what it stands for."""
        return self.dequantize(self.data(*shape, dtype="u8"), zero)

    def dequantize(self, x: og.LogicalTensor, zero: int = 0) -> og.LogicalTensor:
        """What u8 or s8 stand for, with one scale."""
        return self.op("Dequantize", x, qtype="per_tensor", scales=[0.125], zps=[zero])

    def weights(self, *shape: int, axis: int) -> og.LogicalTensor:
        """Constant weights in s8 with a scale for each output channel, and what they stand for."""
        scales = [2.0 ** -(4 + i % 3) for i in range(shape[axis])]
        return self.op(
            "Dequantize",
            self.constant(*shape, dtype="s8"),
            qtype="per_channel",
            axis=axis,
            scales=scales,
            zps=[0] * shape[axis],
        )

    def quantize(self, x: og.LogicalTensor, dtype: str = "u8", zero: int = 0) -> og.LogicalTensor:
        """In u8 or s8, with one scale."""
        return self.op(
            "Quantize", x, qtype="per_tensor", scales=[0.25], zps=[zero], output_type=og.DataType(dtype)
        )


@frozen
class Entry:
    """A line of the table: name, types, and what builds it."""

    name: str
    dtypes: tuple[str, ...]
    build: Callable[[Net], Any]

    def graph(self, dtype: str) -> og.Graph:
        """The finalized graph in one of its types."""
        net = Net("f32" if dtype == "int8" else dtype)
        self.build(net)
        net.graph.finalize()
        return net.graph


def image(net: Net, channels: int, size: int, data_format: str = "NXC") -> og.LogicalTensor:
    shape = (BATCH, channels, size, size) if data_format == "NCX" else (BATCH, size, size, channels)
    return net.data(*shape)


def residual(data_format: str) -> Callable[[Net], None]:
    def build(net: Net) -> None:
        made = net.conv(image(net, 64, 56, data_format), 64, data_format=data_format)
        net.chain(net.op("Add", made, image(net, 64, 56, data_format)), "ReLU")

    return build


def conv_swish(net: Net) -> None:
    made = net.conv(image(net, 64, 56), 64)
    net.op("Multiply", made, net.op("Sigmoid", made))


def conv_chain(net: Net) -> None:
    made = net.conv(image(net, 64, 56), 64)
    made = net.op("Multiply", made, net.constant(1, 1, 1, 64))
    made = net.op("Add", made, image(net, 64, 56))
    made = net.chain(made, "ReLU", "Sigmoid", "HardSwish")
    net.op("Clamp", made, min=0.0, max=6.0)


def batch_norm(net: Net, x: og.LogicalTensor, data_format: str = "NXC") -> og.LogicalTensor:
    channels = x.dims[1 if data_format == "NCX" else -1]
    operands = [net.constant(channels, dtype="f32") for _ in range(4)]
    return net.op("BatchNormInference", x, *operands, epsilon=1e-5, data_format=data_format)


def conv_batch_norm(data_format: str) -> Callable[[Net], None]:
    def build(net: Net) -> None:
        made = net.conv(image(net, 64, 56, data_format), 64, data_format=data_format, bias=False)
        net.chain(batch_norm(net, made, data_format), "ReLU")

    return build


def depthwise(net: Net) -> None:
    made = net.conv(image(net, 128, 56), 128, groups=128)
    net.op("Clamp", made, min=0.0, max=6.0)


def bottleneck(net: Net) -> None:
    x = image(net, 256, 56)
    made = net.chain(net.conv(x, 64, 1), "ReLU")
    made = net.chain(net.conv(made, 64, 3), "ReLU")
    net.chain(net.op("Add", net.conv(made, 256, 1), x), "ReLU")


def bottleneck_int8(net: Net) -> None:
    x = net.data(BATCH, 56, 56, 256, dtype="u8")

    def conv(src: og.LogicalTensor, channels: int, kernel: int) -> og.LogicalTensor:
        weights = net.weights(channels, src.dims[-1], kernel, kernel, axis=0)
        return net.conv(net.dequantize(src), channels, kernel, weights=weights)

    made = net.quantize(net.chain(conv(x, 64, 1), "ReLU"))
    made = net.quantize(net.chain(conv(made, 64, 3), "ReLU"))
    net.quantize(net.chain(net.op("Add", conv(made, 256, 1), net.dequantize(x)), "ReLU"))


def conv_int8(net: Net) -> None:
    made = net.conv(net.quantized(BATCH, 56, 56, 64), 64, weights=net.weights(64, 64, 3, 3, axis=0))
    net.quantize(net.chain(made, "ReLU"))


def conv_add_int8(net: Net) -> None:
    made = net.conv(net.quantized(BATCH, 56, 56, 64), 64, weights=net.weights(64, 64, 3, 3, axis=0))
    other = net.quantized(BATCH, 56, 56, 64)
    net.quantize(net.chain(net.op("Add", made, other), "ReLU"))


def matmul_gelu(net: Net) -> None:
    net.chain(net.matmul(net.data(1024, 1024), 4096), "GELU")


def matmul_six(net: Net) -> None:
    made = net.matmul(net.data(1024, 1024), 1024)
    made = net.op("Add", made, net.data(1024, 1024))
    made = net.op("Multiply", made, net.constant(1, 1024))
    made = net.chain(made, "ReLU")
    made = net.op("Maximum", made, net.data(1024, 1024))
    made = net.chain(made, "Tanh")
    net.op("Clamp", made, min=-0.5, max=0.5)


def matmul_int8(net: Net) -> None:
    made = net.op(
        "MatMul", net.quantized(1024, 1024, zero=3), net.weights(1024, 4096, axis=1), net.constant(4096)
    )
    net.quantize(net.chain(made, "GELU"), "s8")


def mlp(net: Net) -> None:
    x = net.data(256, 512)
    for columns in (1024, 1024):
        x = net.chain(net.matmul(x, columns), "ReLU")
    net.chain(net.matmul(x, 256), "Sigmoid")


def attention(batch: int, heads: int, length: int = 384, size: int = 64) -> Callable[[Net], None]:
    """Softmax(Q · Kᵀ / √size + mask) · V, its heads side by side again at the end."""

    def build(net: Net) -> None:
        query, key, value = (net.data(batch, heads, length, size) for _ in range(3))
        scores = net.op("MatMul", query, key, transpose_b=True)
        scores = net.op("Divide", scores, net.constant(1))
        scores = net.op("Add", scores, net.data(batch, 1, 1, length))
        weights = net.op("SoftMax", scores, axis=-1)
        made = net.op("StaticTranspose", net.op("MatMul", weights, value), order=[0, 2, 1, 3])
        net.op("Reorder", made)

    return build


def attention_int8(net: Net) -> None:
    query, key, value = (net.dequantize(net.data(1, 12, 384, 64, dtype="s8")) for _ in range(3))
    scores = net.op("MatMul", query, key, transpose_b=True)
    scores = net.op("Divide", scores, net.constant(1))
    scores = net.op("Add", scores, net.data(1, 1, 1, 384))
    weights = net.dequantize(net.quantize(net.op("SoftMax", scores, axis=-1), "u8"))
    made = net.op("StaticTranspose", net.op("MatMul", weights, value), order=[0, 2, 1, 3])
    net.quantize(net.op("Reorder", made), "s8")


def pool_add(net: Net) -> None:
    made = net.op(
        "MaxPool",
        image(net, 64, 112),
        kernel=[3, 3],
        strides=[2, 2],
        pads_begin=[1, 1],
        pads_end=[1, 1],
        data_format="NXC",
    )
    net.op("Add", made, image(net, 64, 56))


def pool_int8(net: Net) -> None:
    made = net.op(
        "AvgPool",
        net.quantized(BATCH, 7, 7, 512),
        kernel=[7, 7],
        strides=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        exclude_pad=True,
        data_format="NXC",
    )
    net.quantize(made)


def layer_norm(net: Net) -> None:
    """The end of a transformer's layer: the residual, and what is normalized."""
    x = net.op("Add", net.data(8, 384, 768), net.data(8, 384, 768))
    factors = [net.constant(768, dtype="f32") for _ in range(2)]
    net.op("LayerNorm", x, *factors, keep_stats=False, epsilon=1e-5)


def layer_norm_scaled(net: Net) -> None:
    factors = [net.constant(768, dtype="f32") for _ in range(2)]
    made = net.op("LayerNorm", net.data(8, 384, 768), *factors, keep_stats=False, epsilon=1e-5)
    net.op("Multiply", made, net.constant(1, 1, 768))


def layer_norm_int8(net: Net) -> None:
    factors = [net.constant(768) for _ in range(2)]
    made = net.op("LayerNorm", net.data(8, 384, 768), *factors, keep_stats=False, epsilon=1e-5)
    net.quantize(made, "s8")


def eltwise_chain(net: Net) -> None:
    made = net.op("Multiply", net.data(8, 384, 3072), net.data(8, 384, 3072))
    made = net.op("Add", made, net.constant(1, 1, 3072))
    net.chain(made, "Tanh", "Square", "ReLU")


def single(kind: str, *shape: int, **attributes: Any) -> Callable[[Net], None]:
    def build(net: Net) -> None:
        net.op(kind, net.data(*shape), **attributes)

    return build


def reduction(net: Net) -> None:
    made = net.op("ReduceMean", image(net, 256, 56), axes=[1, 2], keep_dims=True)
    net.op("Multiply", made, net.constant(1, 1, 1, 256))


def transposed(net: Net) -> None:
    made = net.op(
        "ConvTranspose",
        image(net, 128, 28),
        net.constant(128, 64, 4, 4),
        net.constant(64),
        strides=[2, 2],
        pads_begin=[1, 1],
        pads_end=[1, 1],
        dilations=[1, 1],
        data_format="NXC",
        weights_format="IOX",
    )
    net.chain(made, "ReLU")


def conv_relu(channels: int, size: int, kernel: int, data_format: str = "NXC") -> Callable[[Net], None]:
    def build(net: Net) -> None:
        x = image(net, channels, size, data_format)
        net.chain(net.conv(x, channels, kernel, data_format=data_format), "ReLU")

    return build


def stem(net: Net) -> None:
    net.chain(net.conv(image(net, 3, 224), 64, 7, stride=2), "ReLU")


BERT_BASE, BERT_LARGE = 12, 16

GRAPHS = (
    Entry("conv bias relu NXC", FLOATS, conv_relu(64, 56, 3)),
    Entry("conv bias relu NCX", FLOATS, conv_relu(64, 56, 3, "NCX")),
    Entry("conv 1x1 bias relu", FLOATS, conv_relu(256, 28, 1)),
    Entry("conv 7x7 s2 of 3 channels relu", FLOATS, stem),
    Entry("conv bias swish", FLOATS, conv_swish),
    Entry("conv add relu NXC", FLOATS, residual("NXC")),
    Entry("conv add relu NCX", FLOATS, residual("NCX")),
    Entry("conv chain of 6", FLOATS, conv_chain),
    Entry("conv batchnorm relu NXC", FLOATS, conv_batch_norm("NXC")),
    Entry("conv batchnorm relu NCX", FLOATS, conv_batch_norm("NCX")),
    Entry("depthwise conv relu6", FLOATS, depthwise),
    Entry("transposed conv relu", FLOATS, transposed),
    Entry("bottleneck of 3 convs", FLOATS, bottleneck),
    Entry("matmul bias gelu", FLOATS, matmul_gelu),
    Entry("matmul with 6 post-ops", FLOATS, matmul_six),
    Entry("mlp of 3 layers", FLOATS, mlp),
    Entry("attention base 1", FLOATS, attention(1, BERT_BASE)),
    Entry("attention base 8", FLOATS, attention(8, BERT_BASE)),
    Entry("attention large 1", FLOATS, attention(1, BERT_LARGE)),
    Entry("attention large 8", FLOATS, attention(8, BERT_LARGE)),
    Entry("maxpool add", FLOATS, pool_add),
    Entry("add layernorm", FLOATS, layer_norm),
    Entry("layernorm multiply", FLOATS, layer_norm_scaled),
    Entry("eltwise chain", FLOATS, eltwise_chain),
    Entry("reduce mean multiply", FLOATS, reduction),
    Entry("softmax", FLOATS, single("SoftMax", 8, 12, 384, 384, axis=-1)),
    Entry("gelu", FLOATS, single("GELU", 8, 384, 3072)),
    Entry("conv relu", INT8, conv_int8),
    Entry("conv add relu", INT8, conv_add_int8),
    Entry("bottleneck of 3 convs", INT8, bottleneck_int8),
    Entry("matmul bias gelu", INT8, matmul_int8),
    Entry("attention base 1", INT8, attention_int8),
    Entry("avgpool", INT8, pool_int8),
    Entry("layernorm quantize", INT8, layer_norm_int8),
)
"""What is timed, in this order."""
