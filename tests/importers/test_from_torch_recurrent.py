"""`from_torch`: recurrent layers, whose steps are ops of ours without torch tracing each of them."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from onednn_graph.graph.aten.table import TABLE  # noqa: E402 -- torch comes first
from onednn_graph.graph.torch_export.exporting import decompositions, quiet  # noqa: E402 -- torch comes first
from test_from_torch import close, normal  # noqa: E402 -- torch comes first

nn = torch.nn
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

X = normal(4, 6, 8)
LAYERS = {
    "lstm": lambda: nn.LSTM(8, 5),
    "lstm, deep, both ways, batch first": lambda: nn.LSTM(
        8, 5, 2, batch_first=True, bidirectional=True, dropout=0.5
    ),
    "lstm, no bias": lambda: nn.LSTM(8, 5, 2, bias=False),
    "lstm, projected": lambda: nn.LSTM(8, 5, 2, bidirectional=True, proj_size=3),
    "lstm, projected, no bias": lambda: nn.LSTM(8, 5, bias=False, proj_size=3),
    "gru": lambda: nn.GRU(8, 5),
    "gru, deep, both ways, batch first": lambda: nn.GRU(8, 5, 2, batch_first=True, bidirectional=True),
    "gru, no bias": lambda: nn.GRU(8, 5, 2, bias=False),
    "rnn": lambda: nn.RNN(8, 5, 2, bidirectional=True),
    "rnn, relu": lambda: nn.RNN(8, 5, nonlinearity="relu"),
}


def leaves(made):
    return [made] if isinstance(made, torch.Tensor) else [leaf for one in made for leaf in leaves(one)]


def check_layer(layer, *inputs):
    results = og.from_torch(layer, inputs).compile()(*(x for x in leaves(inputs)))
    with torch.no_grad():
        expected = leaves(layer.eval().double()(*(one.double() for one in inputs)))
    layer.float()
    for result, want in zip(results.values(), expected, strict=True):
        close(result, want.float(), 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name):
    torch.manual_seed(0)
    check_layer(LAYERS[name](), X)


class Started(nn.Module):
    """A layer and its first states."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, h, *c):
        return self.layer(x, (h, *c) if c else h)


@pytest.mark.parametrize("name", ["lstm, projected", "gru, deep, both ways, batch first", "rnn"])
def test_first_states(name):
    torch.manual_seed(1)
    layer = LAYERS[name]()
    batch = X.shape[0] if layer.batch_first else X.shape[1]
    outer = layer.proj_size or layer.hidden_size
    states = layer.num_layers * (2 if layer.bidirectional else 1)
    h, c = normal(states, batch, outer, seed=2), normal(states, batch, layer.hidden_size, seed=3)
    check_layer(Started(layer), X, h, *([c] if isinstance(layer, nn.LSTM) else []))


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
def test_steps_are_not_traced_by_torch(make):
    """What torch hands over has one node for the layer, however long the sequence is."""
    with quiet():
        program = torch.export.export(make(3, 4).eval(), (normal(40, 2, 3),), strict=False)
        nodes = program.run_decompositions(decompositions(torch.export, TABLE)).graph.nodes
    assert sum(node.op == "call_function" for node in nodes) < 10


def test_a_step_is_as_many_ops_as_it_needs():
    """Gates are cut out as they lie: four parts, two sums, two products of gates, three and two functions."""
    kinds = [len(og.from_torch(nn.LSTM(3, 4), (normal(steps, 2, 3),)).ops) for steps in (3, 4, 5)]
    assert kinds[2] - kinds[1] == kinds[1] - kinds[0] == 17


def test_dropout_between_layers_draws_in_training():
    """A second layer that passes on what it gets shows zeros and twos; nothing is dropped behind the last."""
    layer = nn.RNN(64, 64, 2, nonlinearity="relu", bias=False, dropout=0.5)
    with torch.no_grad():
        for number in range(2):
            getattr(layer, f"weight_ih_l{number}").copy_(torch.eye(64))
            getattr(layer, f"weight_hh_l{number}").zero_()
    graph = og.from_torch(layer, (torch.ones(3, 16, 64),), training=True)
    value = graph.compile()(torch.ones(3, 16, 64), np.int64(5))["output_0"]
    assert set(np.unique(value).tolist()) == {0.0, 2.0}
    assert 0.4 < (value == 0).mean() < 0.6
