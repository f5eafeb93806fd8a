"""Every op of the registry on tensors of no, one and two axes, with each attribute at its edges.

Each call either gives equal results on NumPy and oneDNN, or ends in an error of ours that names the op.
"""

import itertools
import random
import warnings

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.ops.attributes import AttributeType, OneOf
from op_calls import EXAMPLES, SCHEMAS

SHAPES = ((), (1,), (3,), (0,), (1, 1), (2, 3))
EDGES = {
    AttributeType.s64: (0, 1, -1, 2, -2, 5, 2**31, -(2**63), 2**63 - 1),
    AttributeType.f32: (0.0, 1.0, -1.0, 1e38, -1e38, 1e-45, 1e39, float("inf"), float("-inf"), float("nan")),
    AttributeType.bool: (True, False),
    AttributeType.s64_list: (
        [],
        [0],
        [1],
        [-1],
        [0, 0],
        [1, 1],
        [0, 1],
        [1, 0],
        [2, 2],
        [-1, -2],
        [3],
        [2**40],
    ),
    AttributeType.f32_list: (
        [],
        [0.0],
        [1.0],
        [-1.0],
        [1.0, 2.0],
        [float("nan")],
        [float("inf")],
        [1e-45],
        [1e-60],
    ),
    AttributeType.string: ("", "x"),
}
MOST = 24
"""Combinations of shapes, and of attributes for each, that an op of several inputs is tried on."""


def settings(example):
    """The attributes of a right call, and the same with one of them at an edge."""
    yield example.attributes
    for spec in SCHEMAS[example.kind].attributes:
        values = spec.rule.values if isinstance(spec.rule, OneOf) else EDGES[spec.type]
        yield from ({**example.attributes, spec.name: value} for value in values)


def calls(kind):
    """Examples of a kind with the shapes of their inputs and their attributes."""
    found = []
    for example in EXAMPLES[kind]:
        alike = [example.shapes, *([shape] * len(example.inputs) for shape in SHAPES)]
        mixed = list(itertools.product(SHAPES, repeat=min(len(example.inputs), 4)))
        rng = random.Random(f"{kind} {len(found)}")
        mixed = [
            [*shapes, *rng.choices(SHAPES, k=len(example.inputs) - len(shapes))]
            for shapes in rng.sample(mixed, min(len(mixed), MOST))
        ]
        every = list(settings(example))
        found += [(example, shapes, given) for shapes in alike for given in every]
        found += [
            (example, shapes, given) for shapes in mixed for given in rng.sample(every, min(3, len(every)))
        ]
    return found


def outcome(example, shapes, attributes, backend, arrays):
    """The outputs, or the error of ours."""
    try:
        op = example.op(shapes=shapes, attributes=attributes)
        graph = og.Graph()
        graph.add_op(op)
        graph.finalize()
        (partition,) = graph.get_partitions(backend=backend)
        return list(partition.compile().execute(None, arrays))
    except og.OneDNNGraphError as error:
        return error


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_every_call_works_alike_or_is_an_error_of_ours(kind, onednn):
    worked = 0
    for example, shapes, attributes in calls(kind):
        shapes = [
            (len(given),) if isinstance(given, list) else shape
            for given, shape in zip(example.inputs, shapes, strict=True)
        ]
        arrays = example.arrays(shapes)
        for array in arrays:
            if array.dtype == np.float32 and array.size > 1:
                array.reshape(-1)[1::2] *= -1
        where = f"{shapes} {attributes}"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected = outcome(example, shapes, attributes, "numpy", arrays)
            got = outcome(example, shapes, attributes, "onednn", arrays)
        if isinstance(expected, og.OneDNNGraphError):
            # NumPy runs every op, so this is no right call, and the other backend must not make something of it.
            assert isinstance(got, og.OneDNNGraphError), where
            for error in (expected, got):
                assert kind in str(error) or "tensor 'y" in str(error), f"an error must name the op: {error}"
            if not example.declared:
                assert not isinstance(expected, og.UnsupportedError), where
            continue
        worked += 1
        if isinstance(got, og.UnsupportedError):
            continue
        assert not isinstance(got, og.OneDNNGraphError), f"{where}: {got}"
        for one, other in zip(expected, got, strict=True):
            assert one.shape == other.shape, where
            np.testing.assert_allclose(
                other.astype(np.float64), one.astype(np.float64), rtol=2e-5, atol=2e-5, err_msg=where
            )
    assert worked, "no call of it works"
