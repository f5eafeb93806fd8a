"""An op that the library does in some layout is its own in any: what lies in another way is brought there and back."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.lowering.table import LOWERED
from op_calls import EXAMPLES, LARGER_IMAGES

CALLS = [
    pytest.param(example, id=f"{kind} {number}")
    for kind in EXAMPLES
    if kind in LOWERED
    for number, example in enumerate([*EXAMPLES[kind], *LARGER_IMAGES.get(kind, ())])
    if any(len(shape) > 2 for shape in example.shapes)
]


def turned(tensor):
    """The tensor with its second axis innermost in memory, as channels are last or rows are."""
    rank = len(tensor.dims)
    if rank < 3:
        return tensor
    strides, step = [0] * rank, 1
    for axis in (1, *reversed([a for a in range(rank) if a != 1])):
        strides[axis], step = step, step * max(tensor.dims[axis], 1)
    return og.LogicalTensor(tensor.id, tensor.data_type, tensor.dims, strides=strides)


def on_host(compiled):
    explanation = compiled.explanation
    return (
        explanation is None or explanation.backend == "numpy" or any(step.host for step in explanation.steps)
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("example", CALLS)
def test_what_the_library_does_in_one_layout_it_does_in_all(onednn, example):
    graph = og.Graph()
    graph.add_op(example.op())
    graph.finalize()
    (partition,) = graph.get_partitions()
    plain = partition.compile()
    arrays = example.arrays()
    want = plain.execute(None, arrays)
    if on_host(plain):
        pytest.skip("not the library's in rows")
    for inputs, outputs in ((False, True), (True, False), (True, True)):
        ins = [turned(t) if inputs else t for t in plain.inputs]
        outs = [turned(t) if outputs else t for t in plain.outputs]
        compiled = partition.compile(ins, outs)
        got = compiled.execute(None, arrays)
        assert not on_host(compiled), str(compiled.explanation)
        for have, exact in zip(got, want, strict=True):
            np.testing.assert_allclose(have, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("turned", [(), ("transpose_a",), ("transpose_b",)], ids=str)
def test_matrices_of_which_neither_rows_nor_columns_are_adjacent_are_copied(onednn, dtype, turned):
    """As where heads lie innermost; NumPy's product would take many times as long."""
    graph = og.Graph()
    a, b = (graph.input(name, dtype, (2, 20, 24, 4)) for name in "ab")
    orders = [[0, 3, 2, 1] if f"transpose_{name}" in turned else [0, 3, 1, 2] for name in "ab"]
    orders[1] = [0, 3, 1, 2] if "transpose_b" in turned else [0, 3, 2, 1]
    first, second = (
        graph.op("StaticTranspose", x, order=order) for x, order in zip((a, b), orders, strict=True)
    )
    graph.op("MatMul", first, second, name="y", **dict.fromkeys(turned, True))
    model = graph.compile()
    rng, kind = (
        np.random.default_rng(0),
        np.dtype({"f32": "f4", "bf16": ml_dtypes.bfloat16, "f16": "f2"}[dtype]),
    )
    feeds = {name: rng.integers(-2, 3, (2, 20, 24, 4)).astype(kind) for name in "ab"}
    left, right = (feeds[name].astype(np.float32).transpose(0, 3, 1, 2) for name in "ab")
    np.testing.assert_array_equal(model(feeds)["y"].astype(np.float32), left @ right.swapaxes(-1, -2))
    hosted = [step for one in model.explain().values() for step in one.steps if step.host]
    assert not hosted
