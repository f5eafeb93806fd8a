"""What all sizes of a template share: parameters, state, and weights of few bits."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import TOLERANCE, close, normal  # noqa: E402 -- torch comes first

nn = torch.nn
BATCH = torch.export.Dim("batch")


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        return self.linear(x.flatten(1))


class Counting(nn.Module):
    """How many rows came so far, beside a product."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += x.sum()
        return self.linear(x.flatten(1)) + self.count


def opened(module, training=False):
    graph = og.from_torch(module, (normal(4, 2, 3),), dynamic_shapes=({0: BATCH},), training=training)
    assert isinstance(graph, og.OpenGraph)
    return graph


def test_parameters_are_read_and_set_for_all_sizes():
    module = Flat()
    graph = opened(module, training=True)
    assert sorted(graph.parameters) == ["linear.bias", "linear.weight"]
    np.testing.assert_array_equal(graph.parameters["linear.weight"], module.linear.weight.detach())
    assert not graph.parameters["linear.bias"].flags.writeable
    model = graph.compile()
    model(normal(2, 2, 3))  # is compiled before they change
    graph.set_parameters({"linear.weight": np.zeros((4, 6), np.float32)})
    for batch in (2, 5):
        np.testing.assert_array_equal(
            model(normal(batch, 2, 3)).only, np.tile(module.linear.bias.detach(), (batch, 1))
        )
    fixed = graph.with_shapes({"x": (3, 2, 3)})
    np.testing.assert_array_equal(fixed.parameters["linear.weight"], 0)


def test_what_can_not_be_set_is_said():
    graph = opened(Flat(), training=True)
    wrong = [
        ({"linear.weights": 0}, og.ArgumentError, "no parameter 'linear.weights'.*'linear.weight'"),
        ({"linear.bias": np.zeros(5, np.float32)}, og.ShapeError, "parameter 'linear.bias'"),
        ({0: np.zeros(4, np.float32)}, og.ArgumentTypeError, "takes parameters by name, got 0"),
        ([1], og.ArgumentTypeError, "takes a mapping from names to arrays, got"),
    ]
    for values, error, message in wrong:
        with pytest.raises(error, match=message):
            graph.set_parameters(values)


def test_state_is_one_for_all_sizes():
    graph = opened(Counting().eval())
    assert [t.name for t in graph.state_parameters] == ["count"]
    model = graph.compile()
    model(torch.ones(2, 2, 3))
    model(torch.ones(3, 2, 3))
    np.testing.assert_array_equal(graph.parameters["count"], [30])
    np.testing.assert_array_equal(model.state["count"], [30])
    graph.set_parameters({graph.state_parameters[0]: np.zeros(1, np.float32)})
    model(torch.ones(1, 2, 3))
    np.testing.assert_array_equal(model.state["count"], [6])
    one = graph.with_unknown_sizes()
    assert one.state_parameters[0].name == "count"
    one.compile()(torch.ones(4, 2, 3))
    np.testing.assert_array_equal(graph.parameters["count"], [30])


def test_a_model_without_parameters_has_none():
    graph = opened(Flat().eval())
    assert dict(graph.parameters) == {}
    assert graph.state_parameters == ()


def test_weights_of_few_bits_for_all_sizes():
    module = Counting().eval()
    graph = opened(module)
    small = graph.quantize_weights("s8")
    assert isinstance(small, og.OpenGraph)
    assert small.output_names == graph.output_names
    x = normal(3, 2, 3)
    fixed = graph.with_shapes({"x": x.shape}).quantize_weights("s8").compile()(x).only
    graph.set_parameters({"count": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(small.compile()(x).only, fixed)
    np.testing.assert_array_equal(graph.parameters["count"], small.parameters["count"])  # state is shared
    kinds = [op.kind for op in small.with_shapes({"x": (7, 2, 3)}).ops]
    assert "DynamicDequantize" in kinds
    assert "DynamicDequantize" in [op.kind for op in small.with_unknown_sizes().ops]
    with pytest.raises(og.ArgumentError, match="data_type must be one of s8"):
        graph.quantize_weights("f32")
    with pytest.raises(og.ArgumentError, match="keep"):
        graph.quantize_weights(keep=["nothing"])


def test_what_is_trained_is_served_and_written(tmp_path):
    """`open_model` has all of it too: one graph, a file, and weights of few bits."""
    module = Flat()
    trainer = og.training.Trainer(
        opened(module, training=True),
        lambda graph: og.training.mean_squared_error(
            graph, graph.outputs[0], graph.input("y", "f32", [-1, 4])
        ),
        og.training.SGD(0.1),
    )
    for batch in (2, 5):
        trainer.step({"x": normal(batch, 2, 3).numpy(), "y": normal(batch, 4).numpy()})
    served = trainer.open_model()
    assert dict(served.parameters) == {}  # they are constants of the values of now
    graph = served.with_unknown_sizes()
    x = normal(6, 2, 3)
    wanted = served.compile()(x).only
    np.testing.assert_array_equal(graph.compile()(x).only, wanted)
    close(served.quantize_weights("s8").compile()(x).only, torch.tensor(wanted), 0.05)
    onnx = pytest.importorskip("onnx")
    served.to_onnx(tmp_path / "served.onnx")
    (x_info,) = onnx.load(tmp_path / "served.onnx").graph.input
    assert x_info.type.tensor_type.shape.dim[0].dim_param == "batch"
    close(og.from_onnx(tmp_path / "served.onnx").compile()(x).only, torch.tensor(wanted), TOLERANCE)


def test_the_model_in_a_graph_for_training():
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 4)

        def forward(self, x):
            return self.linear(self.norm(x.flatten(1)))

    module = Dropping()
    graph = opened(module, training=True)
    served = graph.for_inference(fold_batch_norm=True)
    x = normal(5, 2, 3)
    with torch.no_grad():
        close(served.compile()(x).only, module.eval()(x), TOLERANCE)
    with pytest.raises(og.ArgumentError, match="'nothing'"):
        graph.for_inference(["nothing"])
