"""Batches of arrays: each example once an epoch over all ranks, in an order of the seed, whoever prepares them."""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections.abc import Iterator
from operator import length_hint
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onednn_graph.graph.runtime.arrays import Array

T = og.training


def columns(examples: int) -> dict[str, Array]:
    numbers = np.arange(examples)
    return {"x": np.stack([numbers, numbers + 0.5], 1).astype(np.float32), "y": numbers.astype(np.int64)}


def prefetching() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "onednn_graph.prefetch"]


def noisy(batch: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    batch["x"] += rng.normal(size=batch["x"].shape).astype(np.float32)
    return batch


def same(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert list(left) == list(right)
        for name in left:
            np.testing.assert_array_equal(left[name], right[name])
            assert left[name].dtype == right[name].dtype


@given(
    examples=st.integers(1, 40),
    batch_size=st.integers(1, 12),
    size=st.integers(1, 5),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
    seed=st.integers(-3, 1 << 70),
)
def test_ranks_share_the_batches_of_one(
    examples: int, batch_size: int, size: int, shuffle: bool, drop_last: bool, epoch: int, seed: int
) -> None:
    if drop_last and examples < batch_size:
        return
    options: Any = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed}
    whole = T.Loader(columns(examples), batch_size, **options)(epoch)
    parts = [
        T.Loader(columns(examples), batch_size, rank=rank, size=size, **options)(epoch)
        for rank in range(size)
    ]
    same(
        whole, [{n: np.concatenate([p[n] for p in step]) for n in "xy"} for step in zip(*parts, strict=True)]
    )
    for step in zip(*parts, strict=True):
        lengths = [len(part["y"]) for part in step]
        assert max(lengths) - min(lengths) <= 1
    seen = [int(y) for batch in whole for y in batch["y"]]
    assert len(set(seen)) == len(seen) == (examples // batch_size * batch_size if drop_last else examples)
    assert all(np.array_equal(b["x"][:, 0], b["y"]) for b in whole)


@given(
    examples=st.integers(1, 30),
    batch_size=st.integers(1, 7),
    prefetch=st.integers(1, 5),
    threads=st.integers(1, 4),
    start=st.integers(0, 6),
)
def test_threads_change_nothing(
    examples: int, batch_size: int, prefetch: int, threads: int, start: int
) -> None:
    options: Any = {"shuffle": True, "seed": 7, "transform": noisy}
    alone = T.Loader(columns(examples), batch_size, **options)
    together = T.Loader(columns(examples), batch_size, prefetch=prefetch, threads=threads, **options)
    same(list(alone(2)), list(together(2)))
    same(list(alone(2))[start:], list(together(2)[start:]))
    assert not prefetching()


def test_each_epoch_seed_step_and_rank_has_random_numbers_of_its_own() -> None:
    zeros = {"x": np.zeros((8, 2), np.float32)}
    found = {
        float(batch["x"][0, 0])
        for seed in (0, 1)
        for rank in (0, 1)
        for epoch in (0, 1)
        for batch in T.Loader(zeros, 4, seed=seed, rank=rank, size=2, transform=noisy)(epoch)
    }
    assert len(found) == 2 * 2 * 2 * 2
    orders = {
        tuple(int(y) for b in T.Loader(columns(9), 9, shuffle=True, seed=s)(e) for y in b["y"])
        for s in (0, 1)
        for e in (0, 1)
    }
    assert len(orders) == 4
    assert not any(zeros["x"].ravel())  # a transform writes to what is its own


def test_rows_of_a_memory_map_are_read_as_they_are_wanted(tmp_path: Path) -> None:
    made = columns(20)
    np.save(tmp_path / "x.npy", made["x"])
    mapped: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    for shuffle in (False, True):
        loader = T.Loader({"x": mapped, "y": made["y"]}, 6, shuffle=shuffle)
        same(list(loader(1)), list(T.Loader(made, 6, shuffle=shuffle)(1)))
        for batch in loader(1):
            assert not isinstance(batch["x"], np.memmap)
            assert batch["x"].base is None or not isinstance(batch["x"].base, np.memmap)
    noise, wanted = (T.Loader({"x": x}, 6, transform=noisy)(0) for x in (mapped, made["x"]))
    same(noise, wanted)


class Rows:
    """Reads like a dataset of h5py: rows by growing numbers, and nothing else."""

    def __init__(self, array: Array) -> None:
        self.array: Array = array
        self.shape = [len(array), 2]

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            assert (np.diff(index) > 0).all()
        return self.array[index]


class Labelled:
    """Gives rows by labels, as a series of pandas does."""

    def __init__(self, array: Array) -> None:
        self.array, self.iloc = array, None

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        raise KeyError(index)

    def __array__(self, *how: Any, **ways: Any) -> Array:
        return self.array


@pytest.mark.parametrize("shuffle", [False, True])
def test_what_examples_may_lie_in(shuffle: bool) -> None:
    made = columns(10)
    wanted = list(T.Loader(made, 4, shuffle=shuffle)(3))
    for x in (
        Rows(made["x"]),
        list(made["x"]),
        np.asfortranarray(made["x"]),
        np.repeat(made["x"], 2, 0)[::2],
    ):
        found = T.Loader({"x": x, "y": made["y"].tolist()}, 4, shuffle=shuffle)
        same(list(found(3)), wanted)
    labelled = Labelled(made["x"])
    same(list(T.Loader({"x": labelled, "y": made["y"]}, 4, shuffle=shuffle)(3)), wanted)
    empty = T.Loader({"x": list(made["x"]), "y": made["y"]}, 1, rank=1, size=2)(0)[0]
    assert [a.shape for a in empty.values() if isinstance(a, np.ndarray)] in ([(0, 2), (0,)], [(1, 2), (1,)])


def test_a_part_without_examples_looks_like_the_others() -> None:
    def cropped(batch: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        return {"x": np.stack([one[:1].astype(np.float64) for one in batch["x"]]), "y": batch["y"]}

    parts = [T.Loader(columns(3), 2, transform=cropped, rank=r, size=3)(0) for r in range(3)]
    shapes: Any = [[(b["x"].shape, b["x"].dtype.name, b["y"].shape) for b in part] for part in parts]
    for step, lengths in enumerate([[0, 1, 1], [0, 0, 1]]):
        assert [shapes[r][step] for r in range(3)] == [((n, 1), "float64", (n,)) for n in lengths]


def test_what_is_not_transformed_is_read_only() -> None:
    made = columns(4)
    batch: Any = T.Loader(made, 4)(0)[0]
    with pytest.raises(ValueError, match="read-only"):
        batch["x"][0] = 1
    assert made["x"].flags.writeable


# --- threads -------------------------------------------------------------------------------------------


def failing(at: int) -> Any:
    def transform(batch: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        if at in batch["y"]:
            raise KeyError("a bad file")
        return batch

    return transform


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_a_thread_reaches_the_step_that_wanted_the_batch(threads: int) -> None:
    loader = T.Loader(columns(12), 2, transform=failing(5), prefetch=4, threads=threads)
    seen = iter(loader(0))
    assert [next(seen)["y"].tolist() for _ in range(2)] == [[0, 1], [2, 3]]  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match="a bad file") as caught:
        next(seen)
    assert "transform" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert list(seen) == []
    assert not prefetching()


def counted(upto: int, drawn: list[int]) -> Iterator[Any]:
    for number in range(upto):
        drawn.append(number)
        yield {"x": np.full((1, 2), number, np.float32)}


def test_prefetch_draws_no_more_than_it_may() -> None:
    drawn: list[int] = []
    seen = iter(T.Prefetch(lambda epoch: counted(20, drawn), 3)(0))
    assert drawn == []
    next(seen)
    deadline = time.monotonic() + 30
    while len(drawn) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert drawn == [0, 1, 2, 3]
    assert [int(b["x"][0, 0]) for b in seen] == list(range(1, 20))  # type: ignore[index]
    assert not prefetching()


@pytest.mark.parametrize("how", ["closed", "given up", "in a cycle"])
def test_no_thread_stays_behind(how: str) -> None:
    drawn: list[int] = []
    seen: Any = iter(T.Prefetch(lambda epoch: counted(1000, drawn))(0))
    next(seen)
    assert len(prefetching()) == 1
    if how == "closed":
        seen.close()
    elif how == "in a cycle":
        cycle: list[Any] = [seen]
        cycle.append(cycle)
        del cycle
    del seen
    gc.collect()
    deadline = time.monotonic() + 30
    while prefetching() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not prefetching()
    assert len(drawn) < 10


def test_an_error_of_an_iterable_comes_with_its_traceback() -> None:
    def broken() -> Iterator[Any]:
        yield {"x": np.zeros((1, 2), np.float32)}
        raise OSError("no such file")

    seen = iter(T.Prefetch(lambda epoch: broken())(0))
    next(seen)
    with pytest.raises(OSError, match="no such file") as caught:
        next(seen)
    assert "broken" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


# --- torch ---------------------------------------------------------------------------------------------


class Sampler:
    def __init__(self) -> None:
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


class Batches(list[Any]):
    def __init__(self, *batches: Any) -> None:
        super().__init__(batches)
        self.sampler = Sampler()


def test_batches_of_others_get_names() -> None:
    x, y = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    loader = Batches((x, y))
    assert [list(b) for b in T.FromTorch(loader, ["a", "b"])(4)] == [["a", "b"]]
    assert loader.sampler.epochs == [4]
    assert [list(b) for b in T.FromTorch(Batches(x), "a")(0)] == [["a"]]
    entries = Batches({"pixels": x, "label": y, "id": 3})
    assert [list(b) for b in T.FromTorch(entries)(0)] == [["pixels", "label", "id"]]
    assert [list(b) for b in T.FromTorch(entries, ["label"])(0)] == [["label"]]
    assert [list(b) for b in T.FromTorch(entries, {"pixels": "x", "label": "y"})(0)] == [["x", "y"]]
    assert len(T.FromTorch(loader, ["a", "b"])) == 1


def test_a_data_loader_of_torch_with_processes_of_its_own() -> None:
    torch: Any = pytest.importorskip("torch", reason="the extra torch")
    data = torch.utils.data
    given = columns(10)
    loader = data.DataLoader(
        data.TensorDataset(torch.from_numpy(given["x"]), torch.from_numpy(given["y"])),
        batch_size=4,
        shuffle=True,
        num_workers=2,
        generator=torch.Generator(),
    )
    batches = T.FromTorch(loader, ["x", "y"], seed=3)

    def seen(epoch: int, kind: Any = batches) -> list[list[int]]:
        return [b["y"].tolist() for b in kind(epoch)]

    first, second = seen(0), seen(1)
    assert sorted(y for batch in first for y in batch) == list(range(10))
    assert [len(b) for b in first] == [4, 4, 2]
    assert first != second
    assert seen(0) == first == seen(0, T.Prefetch(batches))
    assert seen(1) == second


@pytest.mark.parametrize("grouped", [False, True])
def test_samplers_of_torch_that_share_examples_have_an_order_for_each_epoch(grouped: bool) -> None:
    torch: Any = pytest.importorskip("torch", reason="the extra torch")
    data = torch.utils.data
    examples = data.TensorDataset(torch.arange(10))

    def part(rank: int) -> T.FromTorch:
        sampler = data.distributed.DistributedSampler(examples, num_replicas=2, rank=rank, seed=1)
        how: Any = {"sampler": sampler, "batch_size": 2}
        if grouped:
            how = {"batch_sampler": data.BatchSampler(sampler, 2, False)}
        return T.FromTorch(data.DataLoader(examples, **how), "n")

    def seen(epoch: int) -> list[int]:
        return [n for rank in range(2) for batch in part(rank)(epoch) for n in batch["n"].tolist()]

    assert sorted(seen(0)) == sorted(seen(1)) == list(range(10))
    assert seen(0) != seen(1)


# --- what is refused -----------------------------------------------------------------------------------

X, Y = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"arrays": [X, Y]}, og.ArgumentTypeError, "must be a mapping from names of inputs to arrays, got a list"),
        ({"arrays": {}}, og.ArgumentError, "there are no arrays"),
        ({"arrays": {3: X}}, og.ArgumentTypeError, "names of inputs must be strings, got 3"),
        ({"arrays": {"x": X, "y": Y[:3]}}, og.ShapeError, "as many examples, got 4 of 'x', 3 of 'y'"),
        ({"arrays": {"x": np.array(1.0)}}, og.ShapeError, "'x' must have an axis of examples"),
        ({"arrays": {"x": 3}}, og.ArgumentTypeError, "'x' must be an array or a list of arrays, got 3"),
        ({"arrays": {"x": "abc"}}, og.ArgumentTypeError, "'x' must be an array or a list of arrays"),
        ({"arrays": {"x": iter(X)}}, og.ArgumentTypeError, "'x' must be an array or a list of arrays"),
        ({"arrays": {"x": X[:0]}}, og.ArgumentError, "there are no examples"),
        ({"batch_size": 0}, og.ArgumentError, "batch_size must be 1 or more, got 0"),
        ({"batch_size": 2.5}, og.ArgumentTypeError, "batch_size must be an integer"),
        ({"batch_size": 5, "drop_last": True}, og.ArgumentError, "4 examples, and drop_last leaves no batch of 5"),
        ({"prefetch": -1}, og.ArgumentError, "prefetch must be 0 or more"),
        ({"threads": 0}, og.ArgumentError, "threads must be 1 or more"),
        ({"rank": 2, "size": 2}, og.ArgumentError, "rank must be below size, 2, got 2"),
        ({"seed": "a"}, og.ArgumentTypeError, "seed must be an integer"),
        ({"transform": 3}, og.ArgumentTypeError, "transform must be a function"),
    ],
)  # fmt: skip
def test_what_a_loader_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    every: dict[str, Any] = {"arrays": {"x": X}, "batch_size": 2, **arguments}
    with pytest.raises(error, match=message):
        T.Loader(**every)


def test_what_a_batch_refuses() -> None:
    ragged = T.Loader({"x": [X[0], X[0, :1]]}, 2)
    with pytest.raises(og.ShapeError, match="examples of 'x' must have one shape"):
        list(ragged(0))
    lost = T.Loader({"x": X}, 2, transform=lambda batch, rng: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(og.ArgumentTypeError, match="transform must return a mapping"):
        list(lost(0))
    for names, batch, message in (
        (["a"], (X, Y), r"a batch is 2 arrays, got \['a'\]"),
        (None, (X, Y), "a batch is 2 arrays, got no names"),
        (["z"], {"x": X}, "a batch has no 'z'; it has 'x'"),
    ):
        with pytest.raises(og.ArgumentError, match=message):
            list(T.FromTorch([batch], names)(0))
    with pytest.raises(og.ArgumentError, match=r"generator=torch.Generator\(\)"):
        T.FromTorch([X], ["x"], seed=0)
    with pytest.raises(og.ArgumentError, match="ahead must be 1 or more"):
        T.Prefetch([], 0)


def test_how_many_batches_there_are_is_said_only_where_it_is_known() -> None:
    class Stream:
        def __iter__(self) -> Iterator[tuple[int, ...]]:
            return iter([(1, 2)])

    for batches in (T.FromTorch(Stream(), ["x", "y"]), T.Prefetch(lambda _epoch: (one for one in ()))):
        assert length_hint(batches(0), -1) == -1
    assert length_hint(T.FromTorch([(1, 2)] * 3, ["x", "y"])(0), -1) == 3
    assert length_hint(T.Prefetch(T.Loader(columns(6), 2))(0), -1) == 3


def test_columns_have_an_axis_of_examples(tmp_path: Path) -> None:
    class Dataset:
        shape = ()

        def __getitem__(self, index: Any) -> Any:
            raise AssertionError

    number: Any = np.memmap(tmp_path / "one", np.float32, "w+", shape=())
    for column in (number, Dataset(), np.float32(3)):
        with pytest.raises((og.ShapeError, og.ArgumentTypeError), match="'x' must"):
            T.Loader({"x": column}, 1)
