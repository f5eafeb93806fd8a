"""The weight gradient of a transposed convolution: the upsampling layer of a decoder, with groups.

The layer doubles 14x14 pixels to 28x28: stride 2, a 3x3 kernel, one pixel of padding and one of output padding,
for 2·(14 − 1) + 3 + 1 − 2 = 28. Its 32 input and 16 output channels are divided into 4 groups.
"""

from typing import Any, Literal

import numpy as np
import onednn_graph as og
from numpy.typing import NDArray

BATCH, INPUTS, OUTPUTS, GROUPS, KERNEL, STRIDE, PAD = 8, 32, 16, 4, 3, 2, 1
SMALL, LARGE = 14, 28

rng = np.random.default_rng(0)
x = rng.standard_normal((BATCH, INPUTS, SMALL, SMALL), np.float32)
dy = rng.standard_normal((BATCH, OUTPUTS, LARGE, LARGE), np.float32)


def gradient(
    weights_shape: list[int],
    weights_format: Literal["XOI", "IOX"] = "IOX",
    output_padding: tuple[int, int] = (1, 1),
) -> og.CompiledGraph:
    """The compiled weight gradient of the layer, with the weights in some layout."""
    graph = og.Graph()
    graph.op(
        "ConvTransposeBackwardWeights",
        graph.input("x", "f32", x.shape),
        graph.input("dy", "f32", dy.shape),
        weights_shape=weights_shape,
        strides=[STRIDE, STRIDE],
        pads_begin=[PAD, PAD],
        pads_end=[PAD, PAD],
        dilations=[1, 1],
        output_padding=output_padding,  # checked against the sizes; may be left out, for they say it too
        groups=GROUPS,
        data_format="NCX",
        weights_format=weights_format,
        name="dw",
    )
    return graph.compile()


def forward(data: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The layer itself, to check against: each pixel stamps its kernel. Weights are (I, O / groups, X)."""
    data = data.reshape(BATCH, GROUPS, INPUTS // GROUPS, SMALL, SMALL)
    weights = weights.reshape(GROUPS, INPUTS // GROUPS, OUTPUTS // GROUPS, KERNEL, KERNEL)
    stamps = np.einsum("ngihw,gioyx->ngoyxhw", data, weights, optimize=True)
    size = STRIDE * (SMALL - 1) + KERNEL
    canvas = np.zeros((BATCH, GROUPS, OUTPUTS // GROUPS, size + 1, size + 1))  # + 1: the output padding
    for row in range(KERNEL):
        for column in range(KERNEL):
            reached = canvas[..., row : row + LARGE : STRIDE, column : column + LARGE : STRIDE]
            reached += stamps[..., row, column, :, :]
    return canvas[..., PAD : PAD + LARGE, PAD : PAD + LARGE].reshape(dy.shape)


# With groups there are two layouts of the weights in use. `weights_shape` says which one is meant.
per_input = gradient([INPUTS // GROUPS, OUTPUTS, KERNEL, KERNEL])  # (I / groups, O, X): oneDNN's documents
per_output = gradient([INPUTS, OUTPUTS // GROUPS, KERNEL, KERNEL])  # (I, O / groups, X): oneDNN's code, torch
documented = per_input({"x": x, "dy": dy})["dw"]
library = per_output({"x": x, "dy": dy})["dw"]
print("(I / groups, O, X):", documented.shape, "on", per_input.partitions[0].backend)
print("(I, O / groups, X):", library.shape, "on", per_output.partitions[0].backend)

# They hold the same numbers: in both, group g has input channels 8g to 8g + 7, output channels 4g to 4g + 3.
split = documented.reshape(INPUTS // GROUPS, GROUPS, OUTPUTS // GROUPS, KERNEL, KERNEL)
regrouped = split.swapaxes(0, 1).reshape(library.shape)
print("same gradient in both:", np.allclose(regrouped, library, rtol=1e-4, atol=1e-3))

# The axes may be in another order too: XOI keeps the kernel in front.
xoi = gradient([KERNEL, KERNEL, OUTPUTS, INPUTS // GROUPS], "XOI")({"x": x, "dy": dy})["dw"]
print("same gradient in XOI: ", np.allclose(xoi.transpose(3, 2, 0, 1), documented, rtol=1e-4, atol=1e-3))

# The layer is linear in its weights, so <forward(x, w), dy> = <w, dw> for every w.
w = rng.standard_normal(library.shape, np.float32)
left, right = np.vdot(forward(x, w), dy.astype(np.float64)), np.vdot(w, library)
print(f"<forward(x, w), dy> = {left:.2f}, <w, dw> = {right:.2f}")
assert abs(left - right) < 1e-4 * np.linalg.norm(w) * np.linalg.norm(library)

# Without its output padding the layer would give 27x27 pixels, and dy does not fit.
try:
    gradient([INPUTS // GROUPS, OUTPUTS, KERNEL, KERNEL], output_padding=(0, 0))
except og.ShapeError as error:
    print(f"refused: {error}")
