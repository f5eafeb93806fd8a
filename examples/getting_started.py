"""The weight gradient of a real layer: ResNet's 3x3 convolution of 64 channels on 56x56 pixels."""

from typing import Any

import numpy as np
import onednn_graph as og

rng = np.random.default_rng(0)
x = rng.standard_normal((8, 64, 56, 56), np.float32)  # what went into the layer: N, C, H, W
dy = rng.standard_normal((8, 64, 56, 56), np.float32)  # gradient of the loss by what came out of it

graph = og.Graph()
src = graph.input("src", "f32", x.shape)
diff_dst = graph.input("diff_dst", "f32", dy.shape)
window: dict[str, Any] = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
order: dict[str, Any] = {"data_format": "NCX", "weights_format": "OIX", "weights_shape": [64, 64, 3, 3]}
graph.op("ConvolutionBackwardWeights", src, diff_dst, **window, **order, name="diff_weights")

model = graph.compile()  # once
dw = model({"src": x, "diff_dst": dy})["diff_weights"]  # at every training step
for partition in model.partitions:
    print(partition, model.explain()[partition.id], sep="\n  ")
print("weight gradient:", dw.shape, dw.dtype)

reference = graph.compile(backend="numpy")({"src": x, "diff_dst": dy})["diff_weights"]
error = np.abs(dw - reference).max() / np.abs(reference).max()
print(f"largest difference from NumPy: {error:.1e} of the largest gradient")
assert error < 1e-5
