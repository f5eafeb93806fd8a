"""Modules that go on from what the call before has left in their buffers: caches that are written in place."""

import re
import warnings

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

WAYS = {
    "index_copy_": lambda kept, at, x: kept.index_copy_(2, at, x),
    "indices": lambda kept, at, x: kept.__setitem__((slice(None), slice(None), at), x),
    "index_put_": lambda kept, at, x: kept.index_put_(
        (torch.tensor([[0], [1]]), torch.tensor([[0, 2]])), x[:, :2, :1]
    ),
    "scatter_": lambda kept, at, x: kept.scatter_(2, at[None, None, :, None].expand_as(x), x),
    "a slice": lambda kept, at, x: kept[:, :, 3:5].copy_(x),
    "every other row": lambda kept, at, x: kept[:, :, 1:5:2].copy_(x),
    "a row": lambda kept, at, x: kept[:, :, -2].copy_(x[:, :, 0]),
    "a batch": lambda kept, at, x: kept[1].copy_(x[0, :, :1].expand(3, 8, 4)),
    "all of it": lambda kept, at, x: kept.copy_(x.repeat(1, 1, 4, 1)),
    "a sum": lambda kept, at, x: kept.add_(x[:, :, :1]),
    "sums of rows": lambda kept, at, x: kept.index_add_(2, at, x),
}
COPIED = ("all of it", "a sum")
"""What replaces all elements, or is done by an op that makes new ones."""


class Cache(torch.nn.Module):
    """Puts rows into a buffer, counts them, and reads all of it."""

    def __init__(self, way="index_copy_"):
        super().__init__()
        self.way = WAYS[way]
        self.register_buffer("kept", torch.zeros(2, 3, 8, 4))
        self.register_buffer("count", torch.tensor(0))
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x, at):
        self.way(self.kept, at, x * self.weight)
        self.count.add_(x.shape[2])
        return self.kept.sum(-1) + self.count


def rows():
    return torch.randint(-5, 5, (2, 3, 2, 4)).float()


def in_place(model):
    return sum(len(stage.partition.in_place) for stage in model._stages)


@pytest.mark.parametrize("way", WAYS)
def test_buffers_become_what_they_become_in_torch(way):
    torch.manual_seed(0)
    module = Cache(way)
    graph = og.from_torch(module, (rows(), torch.tensor([0, 1])))
    model = graph.compile()
    assert {t.name for t in graph.state_parameters} == {"kept", "count"}
    assert not module.kept.any()  # the graph has a copy
    assert bool(in_place(model)) == (way not in COPIED)
    for first in (0, 5, 2, 2):
        x, at = rows(), torch.tensor([first, first + 1])
        with torch.no_grad():
            expected = module(x, at)
        np.testing.assert_array_equal(model(x, at).only, expected.numpy())
        np.testing.assert_array_equal(graph.parameters["kept"], module.kept.numpy())
        assert int(graph.parameters["count"]) == int(module.count)


@pytest.mark.parametrize("gradients", [False, True])
def test_sizes_that_stay_open_share_their_state(gradients):
    torch.manual_seed(0)
    module = Cache()
    axes = torch.export.Dim("rows", min=1, max=8)
    with torch.set_grad_enabled(gradients):
        opened = og.from_torch(module, (rows(), torch.tensor([0, 1])), dynamic_shapes=({2: axes}, {0: axes}))
    model, place = opened.compile(), 0
    for count in (4, 1, 1, 2):
        x, at = torch.randint(-5, 5, (2, 3, count, 4)).float(), torch.arange(place, place + count)
        with torch.no_grad():
            expected = module(x, at)
        np.testing.assert_array_equal(model(x, at).only, expected.numpy())
        place += count
    one = opened.with_shapes({"x": [2, 3, 1, 4], "at": [1]})
    np.testing.assert_array_equal(one.parameters["kept"], module.kept.numpy())
    one.set_parameters({name: np.zeros_like(array) for name, array in one.parameters.items()})
    for buffer in module.buffers():
        buffer.zero_()
    with torch.no_grad():
        expected = module(rows(), torch.tensor([0, 1]))
    assert model(x, at).only.shape == expected.shape
    assert one.parameters["count"] == 2


def test_what_changes_keeps_its_type_in_bf16():
    module = Cache()
    graph = og.from_torch(module, (rows(), torch.tensor([0, 1]))).to("bf16")
    model = graph.compile()
    for first in (0, 3):
        x, at = rows(), torch.tensor([first, first + 1])
        with torch.no_grad():
            expected = module(x, at)
        np.testing.assert_allclose(model(x, at).only, expected.numpy(), atol=0.5)
    assert graph.parameters["kept"].dtype == np.float32


def test_memory_that_two_tensors_share_is_an_error():
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.zeros(4, 3)
            self.register_buffer("changing", whole[:2])
            self.register_buffer("staying", whole[1:])

        def forward(self, x):
            self.changing.add_(x)
            return self.staying * x[0]

    with pytest.raises(og.UnsupportedError, match=r"memory .*clone\(\)"):
        og.from_torch(Shared(), (torch.ones(2, 3),))


def test_a_changed_input_is_an_error_that_says_what_to_do():
    class Adding(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    with pytest.raises(og.UnsupportedError, match="return it as an output instead, or make it a buffer"):
        og.from_torch(Adding(), (torch.ones(2),))


def test_a_cache_beside_the_module_is_an_error_that_says_what_to_do():
    class Beside(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = [torch.zeros(3)]

        def forward(self, x):
            self.cache[0].add_(x)
            return self.cache[0] * 2

    with pytest.raises(og.UnsupportedError, match=r"register_buffer\(name, tensor\)"):
        og.from_torch(Beside(), (torch.ones(3),))


class Ring(torch.nn.Module):
    """Puts a row at the place that a counter says, an index that is a number in a buffer."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.register_buffer("kept", torch.zeros(4, 3))
        self.register_buffer("count", torch.tensor(-2))  # from the end, as Python counts

    def forward(self, x):
        self.way(self, x)
        self.count += 1
        return self.kept.sum(0)


def put(ring, x):
    ring.kept[ring.count] = x


def add(ring, x):
    ring.kept[ring.count] += x


def put_by_a_tensor(ring, x):
    ring.kept.index_put_((ring.count,), x)


def change_columns(ring, x):
    ring.kept[:, ring.count.abs()] = x[:1]


LATER = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14),
    reason="torch.export takes a number of a buffer as an index from torch 2.14 on",
)


@pytest.mark.parametrize(
    "way", [put_by_a_tensor, *(pytest.param(way, marks=LATER) for way in (put, add, change_columns))]
)
def test_an_index_that_is_a_number_in_a_buffer(way):
    module = Ring(way)
    graph = og.from_torch(module, (torch.ones(3),))
    model = graph.compile()
    for number in range(4):
        x = torch.arange(3.0) + number
        expected = module(x)
        np.testing.assert_array_equal(model(x).only, expected.numpy())
        np.testing.assert_array_equal(graph.parameters["kept"], module.kept.numpy())
    if way is put:
        graph.set_parameters({"count": np.array(4, np.int64)})
        with pytest.raises(og.ArgumentError, match="4"):
            model(torch.ones(3))


def test_a_number_of_a_buffer_is_no_factor():
    def scaled(ring, x):
        ring.kept[0] = x * ring.count.item()

    with pytest.raises(
        og.UnsupportedError, match=r"aten.mul.*a number that is known in a call only, and only one row"
    ):
        og.from_torch(Ring(scaled), (torch.ones(3),))


class Counting(torch.nn.Module):
    """Counts its calls: in a number of Python's, or in a buffer."""

    def __init__(self, *, buffer: bool) -> None:
        super().__init__()
        self.inner = torch.nn.Module()
        if buffer:
            self.inner.register_buffer("step", torch.tensor(0.0))
        else:
            self.inner.step = 0

    def forward(self, x):
        self.inner.step += 1
        return x * self.inner.step


def test_a_number_of_pythons_that_forward_changes_is_told():
    module = Counting(buffer=False)
    with pytest.warns(
        UserWarning, match=r"changes numbers of Python's, 'inner.step' from 0 to 1: .*register_buffer"
    ):
        graph = og.from_torch(module, (torch.ones(2),))
    assert module.inner.step == 0
    run = graph.compile()
    assert [run(torch.ones(2))["output"].tolist() for _ in range(2)] == [[1, 1], [1, 1]]
    assert torch.nn.Module.__setattr__.__qualname__ == "Module.__setattr__"  # as it was


def test_a_buffer_counts_and_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        graph = og.from_torch(Counting(buffer=True), (torch.ones(2),))
    run = graph.compile()
    assert [run(torch.ones(2))["output"].tolist() for _ in range(2)] == [[1, 1], [2, 2]]


class Counter:
    """No module, and counts."""

    def __init__(self) -> None:
        self.count = 0


class CountingElsewhere(torch.nn.Module):
    """Counts its rows in objects that are no modules, as caches of transformers with sliding windows do."""

    def __init__(self) -> None:
        super().__init__()
        self.counters, self.table, self.rows = [Counter()], {"seen": [0]}, 0

    def forward(self, x):
        start = self.counters[0].count
        self.counters[0].count += x.shape[0]
        self.table["seen"][0] += 1
        self.rows += x.shape[0]
        return x + start


@pytest.mark.parametrize("axes", [None, ({0: torch.export.Dim("n", min=1, max=9)},)], ids=["fixed", "open"])
def test_numbers_of_pythons_in_what_is_no_module_are_told_and_put_back(axes):
    module = CountingElsewhere()
    with pytest.warns(UserWarning, match="changes numbers of Python's") as told:
        og.from_torch(module, (torch.ones(3, 2),), dynamic_shapes=axes)
    (warning,) = [w for w in told if "numbers of Python's" in str(w.message)]
    assert warning.filename == __file__  # the line that asked for it
    rows = "3" if axes is None else r"\S+"
    for each in (
        rf"'counters\[0\].count' from 0 to {rows},",
        r"table\['seen'\]\[0\]. from 0 to 1:",
        rf"'rows' from 0 to {rows},",
    ):
        assert re.search(each, str(warning.message))
    assert (module.counters[0].count, module.table, module.rows) == (0, {"seen": [0]}, 0)


def test_of_many_numbers_of_pythons_a_few_are_told():
    class Many(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.counters = [Counter() for _ in range(20)]

        def forward(self, x):
            for counter in self.counters:
                counter.count += 1
            return x + 1

    with pytest.warns(UserWarning, match=r"'counters\[3\].count' from 0 to 1 and 16 more: "):
        og.from_torch(Many(), (torch.ones(2),))


def test_numbers_of_pythons_are_told_also_where_the_export_fails():
    class Sliding(CountingElsewhere):
        def forward(self, x):
            full = self.counters[0].count + x.shape[0] > 4
            return super().forward(x) * (2 if full else 1)

    module = Sliding()
    axes = ({0: torch.export.Dim("n", min=1, max=9)},)
    with (
        pytest.warns(UserWarning, match=r"'counters\[0\].count' from 0 to "),
        pytest.raises(og.UnsupportedError, match="torch suggests n = Dim"),
    ):
        og.from_torch(module, (torch.ones(3, 2),), dynamic_shapes=axes)
    assert module.counters[0].count == 0
