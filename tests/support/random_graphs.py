"""Random graphs of an anchor and what follows it, for tests of fusion."""

import ml_dtypes
import numpy as np
import onednn_graph as og

NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
ELTWISE = {
    "Abs": {},
    "Clamp": {"min": -1.0, "max": 2.0},
    "Elu": {"alpha": 0.5},
    "Exp": {},
    "GELU": {},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "HardSwish": {},
    "LeakyReLU": {"alpha": 0.1},
    "Mish": {},
    "ReLU": {},
    "Sigmoid": {},
    "SoftPlus": {"beta": 1.5},
    "Square": {},
    "Tanh": {},
}
BINARY = ("Add", "Maximum", "Minimum", "Multiply", "Subtract", "Divide")
ANCHORS = (
    "Convolution",
    "ConvTranspose",
    "MatMul",
    "AvgPool",
    "MaxPool",
    "Interpolate",
    "ReduceSum",
    "ReduceMax",
    "ReduceL2",
    "Add",
    "GELU",
    "BatchNormInference",
    "SoftMax",
    "LayerNorm",
    "Concat",
)


class Builder:
    """A graph in the making, by a random generator."""

    def __init__(self, rng, dtype):
        self.rng, self.dtype = rng, dtype
        self.graph = og.Graph()
        self.rank = rng.choice([1, 2, 2, 3])
        self.spatial = [rng.randint(3, 9) for _ in range(self.rank)]
        self.format = rng.choice(["NCX", "NXC"])
        self.groups = rng.choice([1, 1, 2, 4])
        self.batch = rng.randint(1, 3)

    def data(self, channels):
        if self.format == "NCX":
            return (self.batch, channels, *self.spatial)
        return (self.batch, *self.spatial, channels)

    def input(self, shape):
        name = f"x{len(self.graph.inputs)}_{self.rng.random()}"
        return self.graph.input(name, self.dtype, shape, property_type=self.rng.choice(["undef", "constant"]))

    def operand(self, shape):
        """A tensor that broadcasts to `shape`, in one of the ways that kernels treat apart."""
        r = self.rng.random()
        if r < 0.35:
            return self.input(shape)
        if r < 0.65:
            kept = 1 if r < 0.5 else len(shape) - 1
            return self.input(tuple(d if a == kept else 1 for a, d in enumerate(shape)))
        if r < 0.8:
            return self.input((1,) * len(shape) if r < 0.75 else ())
        if r < 0.9:
            return self.input(tuple(d if self.rng.random() < 0.5 else 1 for d in shape))
        return self.input(tuple(shape[self.rng.randint(0, len(shape)) :]))

    def window(self):
        kernel = [self.rng.randint(1, 3) for _ in self.spatial]
        return kernel, {
            "strides": [self.rng.randint(1, 2) for _ in self.spatial],
            "pads_begin": [self.rng.randint(0, k - 1) for k in kernel],
            "pads_end": [self.rng.randint(0, k - 1) for k in kernel],
            "data_format": self.format,
        }

    def anchor(self, kind):
        rng, graph = self.rng, self.graph
        channels, out = (self.groups * rng.choice([1, 2, 3, 4, 8, 16]) for _ in range(2))
        x = self.input(self.data(channels))
        kernel, window = self.window()
        if kind in ("Convolution", "ConvTranspose"):
            first, last = ("XIO", "OIX") if kind == "Convolution" else ("XOI", "IOX")
            fmt = rng.choice([first, last])
            inner, outer = (
                (channels // self.groups, out) if kind == "Convolution" else (out // self.groups, channels)
            )
            shape = (*kernel, inner, outer) if fmt == first else (outer, inner, *kernel)
            bias = [self.input((out,))] if rng.random() < 0.4 else []
            dense = {"dilations": [1] * self.rank, "groups": self.groups, "weights_format": fmt}
            return graph.op(kind, x, self.input(shape), *bias, **window, **dense)
        if kind == "MatMul":
            inner, columns = x.shape[-1], rng.randint(1, 9)
            turned = rng.random() < 0.5
            matrix = (columns, inner) if turned else (inner, columns)
            batch = rng.choice([(), x.shape[:-2], (1,) * (len(x.shape) - 2)])
            bias = [self.input((columns,))] if rng.random() < 0.4 else []
            return graph.op(kind, x, self.input((*batch, *matrix)), *bias, transpose_b=turned)
        if kind in ("AvgPool", "MaxPool"):
            more = {"exclude_pad": rng.random() < 0.5} if kind == "AvgPool" else {}
            return graph.op(
                kind, x, kernel=kernel, rounding_type=rng.choice(["floor", "ceil"]), **window, **more
            )
        if kind == "Interpolate":
            sizes = [rng.randint(2, 9) for _ in self.spatial]
            return graph.op(
                kind, x, mode=rng.choice(["nearest", "linear"]), sizes=sizes, data_format=self.format
            )
        if kind.startswith("Reduce"):
            axes = sorted(rng.sample(range(self.rank + 2), rng.randint(1, 2)))
            return graph.op(kind, x, axes=axes, keep_dims=rng.random() < 0.7)
        if kind == "BatchNormInference":
            vectors = [
                graph.input(name, "f32", (channels,)) for name in ("gamma", "beta", "mean", "variance")
            ]
            return graph.op(kind, x, *vectors, epsilon=0.01, data_format=self.format)
        if kind == "LayerNorm":
            return graph.op(kind, x, use_affine=False, keep_stats=False, epsilon=0.1)
        if kind == "Concat":
            return graph.op(kind, x, self.input(x.shape), axis=rng.choice([1, -1]))
        if kind == "SoftMax":
            return graph.op(kind, x, axis=rng.choice([1, -1]))
        return graph.op(kind, x, self.operand(x.shape)) if kind == "Add" else graph.op(kind, x)

    def follow(self, y):
        """One more op behind `y`."""
        rng, graph = self.rng, self.graph
        r = rng.random()
        if r < 0.45:
            kind = rng.choice(list(ELTWISE))
            return graph.op(kind, y, **ELTWISE[kind])
        if r < 0.9:
            kind, other = rng.choice(BINARY), self.operand(y.shape)
            return graph.op(kind, y, other) if rng.random() < 0.7 else graph.op(kind, other, y)
        if r < 0.95 and len(y.shape) == self.rank + 2:
            channels = y.shape[1] if self.format == "NCX" else y.shape[-1]
            return graph.op("BiasAdd", y, self.input((channels,)), data_format=self.format)
        return graph.op("Multiply", y, graph.op("Sigmoid", y))


def random_graph(rng, kind, dtype):
    """A graph and its output."""
    builder = Builder(rng, dtype)
    y = builder.anchor(kind)
    for _ in range(rng.randint(0, 6)):
        y = builder.follow(y)
    return builder.graph, y


def arrays_for(graph, seed=0):
    """Halves, ones and twos of both signs, of which sums and products are exact; positive variances."""
    rng = np.random.default_rng(seed)
    result = {}
    for tensor in graph.inputs:
        values = rng.choice([0.5, 1, 1.5, 2], tensor.shape) * np.where(rng.random(tensor.shape) < 0.5, 1, -1)
        values = np.abs(values) if tensor.name == "variance" else values
        result[tensor.name] = np.asarray(values).astype(NUMPY[tensor.data_type.value])
    return result
