"""Ops of your own in the graph: a step of SGD with momentum that takes the weight gradient where it is made.

oneDNN Graph has no optimiser ops. Here one is declared and implemented, and a graph computes the gradient of a layer
on oneDNN, hands it to the new op on NumPy, and gives back the new weights: two partitions, one call per step. At the
end, a function of your own brings the rule for its gradient.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onednn_graph as og
from numpy.typing import NDArray


# 1. The shape rule: all three inputs are alike, and so are both outputs. Unknown shapes are None.
def infer_shapes(context: og.extend.InferenceContext) -> tuple[og.extend.Shape, og.extend.Shape]:
    known = [shape for shape in context.inputs if shape is not None and og.extend.UNKNOWN_DIM not in shape]
    if any(shape != known[0] for shape in known):
        raise context.error(f"weights, velocity and gradient must have one shape, got {known}")
    shape = known[0] if known else None
    return shape, shape


# 2. The schema: ports, attributes with their rules, and types. Ports of one type constraint share a type.
F32 = og.extend.AttributeType.f32
SGD_STEP = og.extend.OpSchema(
    kind="SgdStep",
    summary="One step of stochastic gradient descent with momentum and weight decay.",
    formula="v' = momentum · v + gradient + weight_decay · w;  w' = w − learning_rate · v'",
    inputs=[og.extend.Port("weights", "T"), og.extend.Port("velocity", "T"), og.extend.Port("gradient", "T")],
    outputs=[og.extend.Port("new_weights", "T"), og.extend.Port("new_velocity", "T")],
    types={"T": (og.DataType.f32, og.DataType.f64)},
    attributes=(
        og.extend.AttributeSpec(name="learning_rate", type=F32, required=True, rule=og.extend.NON_NEGATIVE),
        og.extend.AttributeSpec(name="momentum", type=F32, default=0.9, rule=og.extend.NON_NEGATIVE),
        og.extend.AttributeSpec(name="weight_decay", type=F32, default=0.0, rule=og.extend.NON_NEGATIVE),
    ),
    infer_shapes=infer_shapes,
)


# 3. The kernel: reads its input arrays, writes its output arrays.
def sgd_step(op: og.Op, inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> None:
    weights, velocity, gradient = inputs
    new_weights, new_velocity = outputs
    rate, momentum, decay = (op.attributes[k] for k in ("learning_rate", "momentum", "weight_decay"))
    np.multiply(velocity, momentum, out=new_velocity)
    new_velocity += gradient + decay * weights
    np.subtract(weights, rate * new_velocity, out=new_weights)


og.extend.register_op(SGD_STEP, sgd_step)

# Now it is an op like any other. The layer: 3x3, 32 to 32 channels, on 28x28 pixels.
graph = og.Graph()
x = graph.input("x", "f32", [16, 32, 28, 28])
dy = graph.input("dy", "f32", [16, 32, 28, 28])
weights = graph.input("weights", "f32", [32, 32, 3, 3])
velocity = graph.input("velocity", "f32", [32, 32, 3, 3])
gradient = graph.op(
    "ConvolutionBackwardWeights",
    x,
    dy,
    weights_shape=[32, 32, 3, 3],
    strides=[1, 1],
    pads_begin=[1, 1],
    pads_end=[1, 1],
    dilations=[1, 1],
    data_format="NCX",
    weights_format="OIX",
    name="gradient",
)
new_weights, new_velocity = graph.op(
    "SgdStep", weights, velocity, gradient, learning_rate=1e-4, weight_decay=1e-3, name="step"
)
train = graph.compile()
for partition in train.partitions:
    print(f"partition {partition.id}: {partition.ops[0]} on {partition.backend}")
    for backend, reason in partition.why_not.items():
        print(f"  not on {backend}: {reason}")

rng = np.random.default_rng(0)
data = rng.standard_normal((16, 32, 28, 28), np.float32)
delta = rng.standard_normal((16, 32, 28, 28), np.float32) / 16
w = rng.standard_normal((32, 32, 3, 3), np.float32)
v = np.zeros_like(w)
for number in range(3):
    results = train({"x": data, "dy": delta, "weights": w, "velocity": v})
    if number == 0:  # the same by hand
        dw = og.convolution_backward_weights(
            data,
            delta,
            weights_shape=w.shape,
            strides=[1, 1],
            pads_begin=[1, 1],
            pads_end=[1, 1],
            dilations=[1, 1],
            data_format="NCX",
            weights_format="OIX",
        )
        expected = w - 1e-4 * (dw + 1e-3 * w)
        print("the first step is right:", np.allclose(results[new_weights], expected, atol=1e-5))
    w, v = results[new_weights], results[new_velocity]
    print(f"step {number}: |w| = {np.linalg.norm(w):.4f}, |v| = {np.linalg.norm(v):.1f}")

# The attributes of the op are checked like those of a built-in one.
try:
    og.run_op("SgdStep", [w, v, v], {"learning_rate": 1e-4, "momentun": 0.8})
except og.errors.AttributeValueError as error:
    print("refused:", error)


# An op that a loss goes through brings the rule for its gradient: the slope of x + sin²(x) is 1 + 2 · sin(x) · cos(x).
SNAKE = og.extend.OpSchema(
    kind="Snake",
    summary="A rectifier for what repeats.",
    formula="dst = src + sin²(src)",
    inputs=[og.extend.Port("src", "T")],
    outputs=[og.extend.Port("dst", "T")],
    types={"T": (og.DataType.f32, og.DataType.f64)},
    infer_shapes=og.extend.shape_of_first_input,
)


def snake(op: og.Op, inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> None:
    np.add(inputs[0], np.sin(inputs[0]) ** 2, out=outputs[0])


def snake_gradient(context: og.extend.GradientContext) -> Iterator[tuple[str, og.LogicalTensor]]:
    make, src = context.make, context.input("src")
    product = make.multiply(make.op("HostSin", src), make.op("HostCos", src))
    slope = make.add(make.scale(product, 2), make.number(1, src))
    yield "src", make.multiply(context.gradient, slope)


og.extend.register_op(SNAKE, snake)
og.extend.register_gradient("Snake", snake_gradient)
graph = og.Graph()
x = graph.input("x", "f64", [100])
y = graph.op("Snake", x)
(dx,) = graph.gradients(y, [x], seed=1.0)
points, h = np.linspace(-3, 3, 100), 1e-6
results = graph.compile()({"x": points})
above, below = (np.asarray(og.run_op("Snake", [points + step], {})) for step in (h, -h))
assert dx is not None  # it is where a loss does not depend on x
print("the slope is right:", np.allclose(results[dx], (above - below) / (2 * h), atol=1e-8))
