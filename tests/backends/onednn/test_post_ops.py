"""What goes along with a primitive: each thing that is added says its place, at which the primitive is given it."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from compile_requests import request_of
from onednn_graph.backends.onednn.library.engines import native_engine
from onednn_graph.backends.onednn.library.enumerators import Algorithm, Arg
from onednn_graph.backends.onednn.lowering.links import Link, OneScale, PostEltwise
from onednn_graph.backends.onednn.lowering.lowering import Lowering
from onednn_graph.backends.onednn.lowering.post_ops import LikeResult, OperandView, PostOps
from onednn_graph.ops.data_types import DataType

pytestmark = pytest.mark.usefixtures("onednn")

POST_OP = Arg.ATTR_MULTIPLE_POST_OP_BASE


@pytest.fixture
def low():
    graph = og.Graph()
    x, v = graph.input("x", "f32", [3, 4, 5]), graph.input("v", "f16", [4])
    graph.output(graph.op("Exp", x))
    graph.output(graph.op("Exp", v))
    request = request_of(graph)
    return Lowering(native_engine(request.engine), request)


def parts(low):
    """The result, x, and v."""
    first, second = low.request.ops
    return first.outputs[0], first.inputs[0], second.inputs[0]


def test_each_says_its_place(low):
    result, x, _ = parts(low)
    post_ops, operand = PostOps(low, OperandView(result)), low.tensors.read(x)
    assert post_ops.add_eltwise(Algorithm.eltwise_relu) == POST_OP
    assert post_ops.add_binary(Algorithm.binary_add, operand) == POST_OP * 2 | Arg.SRC_1
    assert post_ops.add_eltwise(Algorithm.eltwise_exp) == POST_OP * 3
    assert post_ops.add_binary(Algorithm.binary_mul, operand) == POST_OP * 4 | Arg.SRC_1
    scales = post_ops.add_scales(Arg.WEIGHTS, (0.5, 0.25), 2)
    point = post_ops.add_zero_point(Arg.SRC, 3)
    given = dict(post_ops.arguments)
    assert list(given) == [POST_OP * 2 | Arg.SRC_1, POST_OP * 4 | Arg.SRC_1, scales, point]
    np.testing.assert_array_equal(given[scales].constant, np.float32([0.5, 0.25]))
    np.testing.assert_array_equal(given[point].constant, np.int32([3]))
    attributes = post_ops.attributes()
    assert [one.algorithm.name for one in attributes.post_ops] == [
        "eltwise_relu",
        "binary_add",
        "eltwise_exp",
        "binary_mul",
    ]
    assert attributes.scales == {Arg.WEIGHTS: 2}
    assert attributes.zero_points == {Arg.SRC: 0}


def test_a_zero_point_of_zero_is_none(low):
    post_ops = PostOps(low, OperandView(parts(low)[0]))
    post_ops.add_zero_point(Arg.SRC, 0)
    assert post_ops.arguments == []
    assert post_ops.attributes().zero_points == {}


@pytest.mark.parametrize("scales_result", [True, False])
def test_a_result_is_rounded_by_its_scale_or_by_a_post_op(low, scales_result):
    result, _, _ = parts(low)
    post_ops = PostOps(low, OperandView(result), scales_result=scales_result)
    post_ops.add_links([Link(ops=(), result=result, quantize=OneScale(0.5, 3))])
    made = post_ops.attributes()
    if scales_result:
        assert (made.post_ops, made.scales, made.zero_points) == ((), {Arg.DST: 0}, {Arg.DST: 0})
        assert [number for number, _ in post_ops.arguments] == [
            Arg.ATTR_SCALES | Arg.DST,
            Arg.ATTR_ZERO_POINTS | Arg.DST,
        ]
    else:
        (one,) = made.post_ops
        assert (one.algorithm, one.alpha, one.beta) == (Algorithm.eltwise_linear, 2.0, 3)
        assert (made.scales, post_ops.arguments) == ({}, [])


def test_what_comes_before_and_behind_a_binary_counts(low):
    result, x, _ = parts(low)
    turned = PostEltwise(Algorithm.eltwise_linear, -1, 0), PostEltwise(Algorithm.eltwise_pow, 1, -1)
    link = Link(
        ops=(), result=result, algorithm=Algorithm.binary_div, operand=x, before=turned[0], after=turned[1]
    )
    post_ops = PostOps(low, OperandView(result))
    post_ops.add_links([link, link])
    assert [number for number, _ in post_ops.arguments] == [POST_OP * n | Arg.SRC_1 for n in (2, 5)]
    names = ["eltwise_linear", "binary_div", "eltwise_pow"]
    assert [one.algorithm.name for one in post_ops.attributes().post_ops] == names * 2


def test_a_vector_in_halves_stands_at_its_axis_in_f32(low):
    result, _, v = parts(low)
    post_ops = PostOps(low, OperandView(result))
    post_ops.add_links([Link(ops=(), result=result, algorithm=Algorithm.binary_add, operand=v, axis=1)])
    ((_, operand),) = post_ops.arguments
    assert (operand.desc.shape, operand.desc.data_type) == ((1, 4, 1), DataType.f32)


def test_operands_of_all_elements_lie_as_the_result_does(low):
    result, x, _ = parts(low)
    lies = low.layouts.desc((3, 4, 5), (1, 15, 3), DataType.f32)
    post_ops = PostOps(low, LikeResult.of(result, lambda operand: operand, lies))
    post_ops.add_links([Link(ops=(), result=result, algorithm=Algorithm.binary_add, operand=x)])
    ((_, operand),) = post_ops.arguments
    assert operand.desc.strides == (1, 15, 3)
    assert [step.is_copy for step in low.emitter.steps] == [True]
