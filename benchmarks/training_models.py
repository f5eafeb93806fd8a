"""The models of `training.py`: torch modules, and the same as graphs that hold their parameters."""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onednn_graph as og
import torch
from attrs import define, frozen
from models_modules import UNet
from torch import fx, nn
from torch.nn import functional

# Shape rules of detection ops that no model here has; they can't be registered where torch is one for the CPU alone.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
from torchvision import models as zoo  # noqa: E402 -- it reads what stands above

Array = np.ndarray
Tensor = og.LogicalTensor
NCX, OIX, IOX = {"data_format": "NCX"}, {"weights_format": "OIX"}, {"weights_format": "IOX"}


class EncoderLayer(nn.Module):
    """Attention and a perceptron, each behind a layer normalisation, added to what they read."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def parted(self, x: torch.Tensor, shape: list[int]) -> torch.Tensor:
        """(batch, words, width) as (batch, heads, words, size)."""
        return x.reshape(shape).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = [-1, WORDS, self.heads, self.size]
        y = self.before(x)
        q, k, v = (self.parted(one(y), shape) for one in (self.query, self.key, self.value))
        attended = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape([-1, WORDS, self.heads * self.size]))
        return x + self.back(functional.gelu(self.wide(self.between(x))))


WORDS, WIDTH = 128, 768


def _encoder() -> nn.Module:
    return nn.Sequential(*[EncoderLayer(WIDTH, 12) for _ in range(6)], nn.LayerNorm(WIDTH))


def _generator(width: int = 64, noise: int = 100) -> nn.Module:
    """DCGAN's: from numbers to images of 64×64 by transposed convolutions."""
    layers: list[nn.Module] = []
    channels = [noise, 8 * width, 4 * width, 2 * width, width]
    for number, (inputs, outputs) in enumerate(itertools.pairwise(channels)):
        stride, pad = (1, 0) if number == 0 else (2, 1)
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, stride, pad, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


@frozen
class Recipe:
    """A model that is trained.

    Attributes:
        make: the torch module.
        shape: of its input.
        batch: that is usual.
        classes: whether its loss is the cross entropy of its logits, or the mean square of a difference.
        optimizer: that is usual, `sgd` with momentum or `adamw`.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    classes: bool = True
    optimizer: str = "sgd"


_IMAGE = (3, 224, 224)
RECIPES: Mapping[str, Recipe] = {
    "resnet18": Recipe(lambda: zoo.resnet18(), _IMAGE, 8),
    "resnet50": Recipe(lambda: zoo.resnet50(), _IMAGE, 8),
    "mobilenet_v2": Recipe(lambda: zoo.mobilenet_v2(dropout=0.0), _IMAGE, 8),
    "convnext_tiny": Recipe(
        lambda: zoo.convnext_tiny(stochastic_depth_prob=0.0), _IMAGE, 8, optimizer="adamw"
    ),
    "unet": Recipe(UNet, (3, 128, 128), 8, classes=False),
    "encoder": Recipe(_encoder, (WORDS, WIDTH), 8, classes=False, optimizer="adamw"),
    "dcgan": Recipe(_generator, (100, 1, 1), 32, classes=False),
}


@frozen
class Problem:
    """A model, its parameters and the arrays of one step.

    Attributes:
        module: in training mode, in f32.
        x, target: input, and what the loss compares with; one share per class, or an image or a sequence.
        classes, optimizer: see `Recipe`.
    """

    module: nn.Module
    x: torch.Tensor
    target: torch.Tensor
    classes: bool
    optimizer: str


def problem(name: str, batch: int | None) -> Problem:
    """The same one for everybody: weights and data are drawn from a seed."""
    recipe = RECIPES[name]
    torch.manual_seed(0)
    module = recipe.make().train()
    x = torch.randn((batch or recipe.batch, *recipe.shape))
    with torch.no_grad():
        made = module(x)
    target = torch.randn(made.shape)
    return Problem(
        module, x, target.softmax(1) if recipe.classes else target, recipe.classes, recipe.optimizer
    )


def loss_of(made: torch.Tensor, target: torch.Tensor, classes: bool) -> torch.Tensor:
    """The loss as torch has it, at least in f32."""
    made = made if made.dtype is torch.float64 else made.float()
    return functional.cross_entropy(made, target) if classes else functional.mse_loss(made, target)


@frozen
class Model:
    """A model as a graph.

    Attributes:
        graph: it holds the parameters, and assigns the running statistics.
        feeds: arrays by input name.
        loss: a number.
    """

    graph: og.Graph
    feeds: Mapping[str, Array]
    loss: Tensor


def model(given: Problem) -> Model:
    """The graph of a model and its loss, in f32, with the parameters of the module under their names."""
    traced = fx.Tracer().trace(given.module)
    build = _Build(given.module, og.Graph(), {}, {}, {})
    made = build.run(traced, given.x)
    g = build.graph
    target = build.input("target", given.target)
    if given.classes:
        loss = og.training.cross_entropy(g, made, target, axis=1)
    else:
        loss = og.training.mean_squared_error(g, made, target)
    return Model(g, build.feeds, loss)


@define
class _Build:
    """From nodes of torch.fx to ops."""

    module: nn.Module
    graph: og.Graph
    parameters: dict[str, Tensor]
    feeds: dict[str, Array]
    values: dict[str, Any]

    def input(self, name: str, tensor: torch.Tensor) -> Tensor:
        self.feeds[name] = np.ascontiguousarray(tensor.detach().numpy())
        return self.graph.input(name, "f32", tuple(tensor.shape))

    def parameter(self, name: str) -> Tensor:
        """A parameter, or a buffer."""
        if name not in self.parameters:
            value = self.module.state_dict()[name]
            self.parameters[name] = self.graph.parameter(value.numpy(), name=name)
        return self.parameters[name]

    def run(self, traced: fx.Graph, x: torch.Tensor) -> Tensor:
        def seen(value: Any) -> Any:
            return fx.node.map_arg(value, lambda node: self.values[node.name])

        for node in traced.nodes:
            inputs, named = seen(node.args), seen(node.kwargs)
            if node.op == "placeholder":
                self.values[node.name] = self.input("x", x)
            elif node.op == "get_attr":
                self.values[node.name] = self.parameter(node.target)
            elif node.op == "call_module":
                layer = self.module.get_submodule(node.target)
                self.values[node.name] = LAYERS[type(layer)](self, node.target, layer, *inputs)
            elif node.op == "output":
                return inputs[0]
            else:
                key = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
                if node.target is functional.max_pool2d:
                    key = "max_pool2d"
                self.values[node.name] = FUNCTIONS[key](self, *inputs, **named)
        raise ValueError("the module returns nothing")


def _conv(b: _Build, name: str, layer: nn.Conv2d, x: Tensor) -> Tensor:
    pads = list(layer.padding)
    made = b.graph.op(
        "Convolution", x, b.parameter(f"{name}.weight"), **NCX, **OIX, strides=list(layer.stride),
        pads_begin=pads, pads_end=pads, dilations=list(layer.dilation), groups=layer.groups,
    )  # fmt: skip
    return _biased(b, name, layer, made, **NCX)


def _transposed(b: _Build, name: str, layer: nn.ConvTranspose2d, x: Tensor) -> Tensor:
    pads = list(layer.padding)
    made = b.graph.op(
        "ConvTranspose", x, b.parameter(f"{name}.weight"), **NCX, **IOX, strides=list(layer.stride),
        pads_begin=pads, pads_end=pads, dilations=list(layer.dilation), groups=layer.groups,
    )  # fmt: skip
    return _biased(b, name, layer, made, **NCX)


def _biased(b: _Build, name: str, layer: Any, made: Tensor, **options: Any) -> Tensor:
    if layer.bias is None:
        return made
    return b.graph.op("BiasAdd", made, b.parameter(f"{name}.bias"), **options)


def _linear(b: _Build, name: str, layer: nn.Linear, x: Tensor) -> Tensor:
    weight = b.parameter(f"{name}.weight")
    inputs = [x, weight] if layer.bias is None else [x, weight, b.parameter(f"{name}.bias")]
    return b.graph.op("MatMul", *inputs, transpose_b=True)


def _batch_norm(b: _Build, name: str, layer: nn.BatchNorm2d, x: Tensor) -> Tensor:
    running = [b.parameter(f"{name}.{one}") for one in ("running_mean", "running_var")]
    vectors = [b.parameter(f"{name}.{one}") for one in ("weight", "bias")]
    made = b.graph.op(
        "BatchNormForwardTraining", x, *running, *vectors, **NCX, epsilon=layer.eps, momentum=1 - (layer.momentum or 0)
    )  # fmt: skip
    for one, value in zip(running, made[1:3], strict=True):
        b.graph.assign(one, value)
    return made[0]


def _layer_norm(b: _Build, x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    made = b.graph.op("LayerNorm", x, weight, bias, begin_norm_axis=-len(shape), epsilon=eps, keep_stats=True)
    return made[0]


def _pool(b: _Build, x: Tensor, size: Any, stride: Any = None, padding: Any = 0, **others: Any) -> Tensor:
    def pair(value: Any) -> list[int]:
        return [value] * 2 if isinstance(value, int) else list(value)

    return b.graph.op(
        "MaxPool", x, **NCX, kernel=pair(size), strides=pair(stride or size), pads_begin=pair(padding),
        pads_end=pair(padding),
    )  # fmt: skip


def _mean(b: _Build, x: Tensor, size: Any) -> Tensor:
    assert size in (1, (1, 1)), size
    return b.graph.op("ReduceMean", x, axes=[2, 3], keep_dims=True)


def _reshape(b: _Build, x: Tensor, *shape: Any) -> Tensor:
    wanted = list(shape[0]) if isinstance(shape[0], list | tuple) else list(shape)
    return b.graph.op("StaticReshape", x, shape=wanted, special_zero=False)


def _transpose(b: _Build, x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(len(x.dims)))
    order[first], order[second] = order[second], order[first]
    return b.graph.op("StaticTranspose", x, order=order)


def _attention(b: _Build, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scale = b.graph.constant(np.asarray(q.dims[-1] ** -0.5, b.feeds["x"].dtype))
    scores = b.graph.op("Multiply", b.graph.op("MatMul", q, k, transpose_b=True), scale)
    return b.graph.op("MatMul", b.graph.op("SoftMax", scores, axis=-1), v)


def _clamp(b: _Build, x: Tensor) -> Tensor:
    return b.graph.op("Clamp", x, min=0.0, max=6.0)


def _add(b: _Build, x: Tensor, y: Tensor) -> Tensor:
    return b.graph.op("Add", x, y)


def _multiply(b: _Build, x: Tensor, y: Tensor) -> Tensor:
    return b.graph.op("Multiply", x, y) if len(x.dims) >= len(y.dims) else _multiply(b, y, x)


def _permute(b: _Build, x: Tensor, *order: Any) -> Tensor:
    wanted = list(order[0]) if isinstance(order[0], list | tuple) else list(order)
    return b.graph.op("StaticTranspose", x, order=wanted)


def _flatten(b: _Build, x: Tensor, start: int) -> Tensor:
    return _reshape(b, x, [*x.dims[:start], -1])


LAYERS: Mapping[type, Callable[..., Tensor]] = {
    nn.Conv2d: _conv,
    nn.ConvTranspose2d: _transposed,
    nn.Linear: _linear,
    nn.BatchNorm2d: _batch_norm,
    nn.LayerNorm: lambda b, name, layer, x: _layer_norm(
        b, x, layer.normalized_shape, b.parameter(f"{name}.weight"), b.parameter(f"{name}.bias"), layer.eps,
    ),
    nn.ReLU: lambda b, name, layer, x: b.graph.op("ReLU", x),
    nn.ReLU6: lambda b, name, layer, x: _clamp(b, x),
    nn.GELU: lambda b, name, layer, x: b.graph.op("GELU", x),
    nn.Tanh: lambda b, name, layer, x: b.graph.op("Tanh", x),
    nn.Dropout: lambda b, name, layer, x: x,
    nn.Identity: lambda b, name, layer, x: x,
    nn.Flatten: lambda b, name, layer, x: _flatten(b, x, layer.start_dim),
    nn.MaxPool2d: lambda b, name, layer, x: _pool(b, x, layer.kernel_size, layer.stride, layer.padding),
    nn.AdaptiveAvgPool2d: lambda b, name, layer, x: _mean(b, x, layer.output_size),
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "add": _add,
    "iadd": _add,
    "mul": _multiply,
    "flatten": _flatten,
    "cat": lambda b, parts, axis: b.graph.op("Concat", *parts, axis=axis),
    "max_pool2d": _pool,
    "adaptive_avg_pool2d": _mean,
    "layer_norm": _layer_norm,
    "permute": _permute,
    "reshape": _reshape,
    "transpose": _transpose,
    "gelu": lambda b, x: b.graph.op("GELU", x),
    "scaled_dot_product_attention": _attention,
    "stochastic_depth": lambda b, x, p, mode, training: x,
}
