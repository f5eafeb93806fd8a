"""A legacy op through oneDNN Graph's own interface: `ConvolutionBackpropFilters`, with the names it had.

Code and graphs from before oneDNN Graph 3.0 call the ports `input_forward`, `output_delta` and `filter_delta`, and
the attributes `filter_shape` and `filter_format`. They run as they are: the old kind is an alias of
`ConvolutionBackwardWeights`, and messages keep the names that you wrote.
"""

import numpy as np
import onednn_graph as og

# The second layer of a keyword spotter: 64 to 64 channels, 5x5, on 49x10 spectrograms. Channels come last and
# filters are XIO (height, width, in, out), the defaults of the op.
INPUT_FORWARD, OUTPUT_DELTA, FILTER_DELTA = range(3)  # ids of tensors are yours to choose
input_forward = og.LogicalTensor(INPUT_FORWARD, "f32", [16, 49, 10, 64], name="input_forward")
output_delta = og.LogicalTensor(OUTPUT_DELTA, "f32", [16, 25, 5, 64], name="output_delta")
filter_delta = og.LogicalTensor(FILTER_DELTA, "f32", name="filter_delta")  # its shape will be inferred

graph = og.Graph()
graph.add_op(
    og.Op(
        0,
        "ConvolutionBackpropFilters",
        [input_forward, output_delta],
        [filter_delta],
        name="conv2",
        strides=[2, 2],
        pads_begin=[2, 2],
        pads_end=[2, 2],
        dilations=[1, 1],
        filter_shape=[5, 5, 64, 64],
        data_format="NXC",
        filter_format="XIO",
    )
)
graph.finalize()
print("inferred:", graph.tensor(FILTER_DELTA))

[partition] = graph.get_partitions("fusion")
print("partition:", partition, "| supported:", partition.is_supported, "| why not:", partition.why_not)

engine = og.Engine("cpu")
compiled = partition.compile([input_forward, output_delta], [filter_delta], engine)
print("compiled:", compiled.query_logical_tensor(FILTER_DELTA))

# execute takes arrays or Tensors in the order of the ports, and gives new arrays or writes to yours.
rng = np.random.default_rng(0)
x = rng.standard_normal((16, 49, 10, 64), np.float32)
dy = rng.standard_normal((16, 25, 5, 64), np.float32)
[first] = compiled.execute(og.Stream(engine), [x, dy])

# In a training loop the arrays stay where they are and only their contents change: bind them once.
dw = np.empty((5, 5, 64, 64), np.float32)
step = compiled.bind([x, dy], [dw])
for _ in range(3):
    rng.standard_normal(out=dy, dtype=np.float32)
    step()
again = og.convolution_backprop_filters(  # one op on arrays, without a graph
    x, dy, [5, 5, 64, 64], strides=[2, 2], pads_begin=[2, 2], pads_end=[2, 2], dilations=[1, 1]
)
print("first step:", first.shape, "| bound and eager agree:", np.allclose(dw, again, atol=1e-3))

# What is wrong is said in the old names.
try:
    og.Op(
        1,
        "ConvolutionBackpropFilters",
        [input_forward, output_delta],
        [filter_delta],
        name="conv2",
        strides=[2, 2],
        pads_begin=[2, 2],
        pads_end=[2, 2],
        dilations=[1, 1],
        filters_shape=[5, 5, 64, 64],
    )
except og.errors.AttributeValueError as error:
    print("refused:", error)
try:
    wrong = og.Graph()
    wrong.add_op(
        og.Op(
            1,
            "ConvolutionBackpropFilters",
            [input_forward, output_delta],
            [filter_delta],
            name="conv2",
            strides=[2, 2],
            pads_begin=[2, 2],
            pads_end=[2, 2],
            dilations=[1, 1],
            filter_shape=[5, 5, 32, 64],
        )
    )
    wrong.finalize()
except og.ShapeError as error:
    print("refused:", error)
