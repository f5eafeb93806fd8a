"""What the tests of torch.compile share: models, and eager torch in double precision."""

import copy
import gc

import torch
from onednn_graph.graph.torch_compile import report
from torch import nn

TOLERANCE = 1e-5
"""Of results and gradients, in norm, relative to double precision."""


class Network(nn.Module):
    """Convolutions, batch normalisation, a residual, a pooling and a product: what most networks are made of."""

    def __init__(self, channels=8, classes=5):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.last = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        x = x + torch.nn.functional.gelu(self.second(x))
        return self.last(x.mean((2, 3)))


def seeded(make):
    torch.manual_seed(0)
    return make()


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def compiled(function, **options):
    """By the backend, with errors of ours raised; torch takes no options beside a mode."""
    if "mode" not in options:
        options["options"] = {"strict": True, **options.get("options", {})}
    return torch.compile(function, backend="onednn_graph", **options)


def in_double(module, *inputs):
    """A copy of a module, and of inputs, in double precision."""
    return copy.deepcopy(module).double(), *[
        x.detach().double() if x.is_floating_point() else x for x in inputs
    ]


def away(made, expected):
    """|difference| / |expected| in norm."""
    expected = expected.detach().double()
    difference = (made.detach().double() - expected).norm().item()
    return difference / max(expected.norm().item(), 1e-30)


def assert_near(made, expected, tolerance=TOLERANCE):
    assert made.shape == expected.shape
    assert away(made, expected) <= tolerance


def assert_same_state(module, expected, tolerance=TOLERANCE):
    """Parameters, their gradients and buffers of two modules."""
    for (name, made), other in zip(module.named_parameters(), expected.parameters(), strict=True):
        assert away(made, other) <= tolerance, name
        assert (made.grad is None) == (other.grad is None), name
        # The bias before a normalisation has no gradient but for rounding.
        if made.grad is not None and other.grad.norm() > 1e-9:
            assert away(made.grad, other.grad) <= tolerance, name
    for (name, made), other in zip(module.named_buffers(), expected.buffers(), strict=True):
        assert away(made, other) <= tolerance, name


def traced():
    """How many graphs torch has made by tracing."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def functions(module):
    """Graphs that were compiled for a module and that torch still holds."""
    gc.collect()
    there = list(report.alive())
    wanted = {one.untyped_storage()._cdata for one in module.parameters()}
    groups = {one.group for one in there if one.weights() & wanted}
    return [one for one in there if one.group in groups]
