"""Steps of real models on ranks, and a communicator of one rank that looks at the clock; for `ranks.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import onednn_graph as og
from attrs import define, field
from onednn_graph.graph.runtime import communication
from onednn_graph.graph.runtime.arrays import numpy_type
from onednn_graph.graph.training.averaging import Layout, averaged
from onednn_graph.graph.training.buckets import WholeBucket
from onednn_graph.ops.data_types import DataType
from rank_simulation import Bucket, Timeline

Array = np.ndarray
BUCKET_BYTES = og.training.mpi.__kwdefaults__["bucket_bytes"]


@define
class Nobody:
    """A communicator of mpi4py that has one rank, and nothing to do."""

    size: int = 1

    def Iallreduce(self, *_: object) -> Nobody:  # noqa: N802 -- as mpi4py says it
        return self

    def Test(self) -> bool:  # noqa: N802
        return True

    IN_PLACE = SUM = None


@define
class Stopwatch:
    """One rank, which copies into buckets and out of them as any does, and keeps the times.

    Attributes:
        full: when each bucket was full, in the order in which they were; with its bytes.
        waits: when the first mean was asked for.
    """

    rank: int = 0
    size: int = 1
    bucket_bytes: int = BUCKET_BYTES
    data_type: DataType = DataType.f32
    key: int = field(factory=communication.new_key)
    full: list[tuple[float, int]] = field(factory=list[tuple[float, int]])
    waits: float | None = None
    _buckets: list[WholeBucket] = field(factory=list[WholeBucket])

    def __attrs_post_init__(self) -> None:
        communication.enter(self)

    def again(self) -> None:
        self.full.clear()
        self.waits = None

    # --- what trainers and ops ask ---

    def prepare(self, graph: og.Graph) -> None:
        pass

    def averaged(self, graph: og.Graph, loss: Any, gradients: Sequence[Any]) -> Iterator[Any]:
        return averaged(graph, self, loss, gradients)

    def broadcast(self, arrays: Iterable[Array]) -> None:
        pass

    def mean(self, value: float) -> float:
        return value

    def meet(self, what: str, value: object = None, **_: object) -> None:
        pass

    def buckets(self, layouts: Sequence[Layout]) -> list[int]:
        first = len(self._buckets)
        self._buckets += [
            WholeBucket(Nobody(), Nobody(), tuple(sizes), numpy_type(t)) for sizes, t in layouts
        ]
        return list(range(first, len(self._buckets)))

    def put(self, bucket: int, piece: int, values: Array) -> None:
        one = self._buckets[bucket]
        one.write(piece, values)
        one.missing.discard(piece)
        if not one.missing:
            one.missing.update(range(len(one.sizes)))
            one.start()
            one.advance()
            self.full.append((perf_counter(), sum(one.sizes) * one.dtype.itemsize))

    def get(self, bucket: int, piece: int, out: Array) -> None:
        if self.waits is None:
            self.waits = perf_counter()
        self._buckets[bucket].read(piece, out)

    def total(self, values: Array, out: Array) -> None:
        np.copyto(out, values)


@define
class Training:
    """A model that is trained.

    Attributes:
        trainer: makes a trainer of it, with a communicator or without.
        feeds: of a step.
    """

    trainer: Callable[[Any], og.training.Trainer]
    feeds: Mapping[str, Array]


def _trainer(graph: og.Graph, loss: og.LogicalTensor, comm: Any) -> og.training.Trainer:
    """Deterministic: no step tries ways of weight gradients."""
    return og.training.Trainer(
        graph, loss, og.training.SGD(1e-6, momentum=0.9), comm=comm, deterministic=True
    )


def dense(batch: int, width: int = 1024, layers: int = 8) -> Training:
    """Dense layers, which need nothing but NumPy to be made."""
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=(width, width)) / 30).astype(np.float32) for _ in range(layers)]
    feeds = {"x": rng.normal(size=(batch, width)).astype(np.float32)}

    def trainer(comm: Any) -> og.training.Trainer:
        graph = og.Graph()
        h = graph.input("x", "f32", [batch, width])
        for number, array in enumerate(given):
            h = graph.relu(graph.matmul(h, graph.parameter(array.copy(), name=f"w{number}")))
        loss = graph.reduce_mean(graph.square(h), axes=[0, 1])
        return _trainer(graph, loss, comm)

    return Training(trainer, feeds)


def vision(name: str, batch: int) -> Training:
    """A model of `training.py`, on images of 224 × 224."""
    import training_models

    made = training_models.model(training_models.problem(name, batch))
    return Training(lambda comm: _trainer(made.graph, made.loss, comm), made.feeds)


def bert_base(batch: int) -> Training:
    """With a head for two classes, on sentences of 128 words."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = BertConfig(
                attn_implementation="eager", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
            )
            self.bert = BertForSequenceClassification(config)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.bert(input_ids=words).logits

    torch.manual_seed(0)
    words = torch.randint(0, 30000, (batch, 128))
    graph = og.from_torch(Model(), (words,), training=True)
    labels = graph.input("labels", "s64", [batch])
    loss = og.training.cross_entropy(graph, graph.outputs[0], labels)
    [name] = [name for name in graph.input_names if name not in ("labels", "seed")]
    feeds = {name: words.numpy(), "labels": np.zeros(batch, np.int64)}
    if "seed" in graph.input_names:
        feeds["seed"] = np.zeros((), np.int64)
    return Training(lambda comm: _trainer(graph, loss, comm), feeds)


MODELS: Mapping[str, tuple[Callable[[int], Training], int]] = {
    "dense": (dense, 64),
    "resnet18": (partial(vision, "resnet18"), 2),
    "resnet50": (partial(vision, "resnet50"), 16),
    "bert_base": (bert_base, 8),
}
"""What makes a model, and a usual batch of a rank."""


class Timed:
    """A model's step alone, and with a stopwatch: in turns.

    Args:
        name: of a model of `MODELS`.
        batch: of a rank.
    """

    def __init__(self, name: str, batch: int) -> None:
        self.name, self.batch = name, batch
        self.training = MODELS[name][0](batch)
        self.watch = Stopwatch()
        self.alone = self.training.trainer(None)
        self.watched = self.training.trainer(self.watch)
        self._alone: list[float] = []
        self._watched: list[tuple[float, float, list[tuple[float, int]]]] = []

    def turn(self) -> None:
        """One step each."""
        begin = perf_counter()
        self.alone.step(self.training.feeds)
        self._alone.append(perf_counter() - begin)
        self.watch.again()
        begin = perf_counter()
        self.watched.step(self.training.feeds)
        total = perf_counter() - begin
        full = [(at - begin, nbytes) for at, nbytes in self.watch.full]
        self._watched.append((total, (self.watch.waits or begin) - begin, full))

    def forget(self) -> None:
        """The times so far."""
        self._alone.clear()
        self._watched.clear()

    def timeline(self, of: Callable[[Sequence[float]], float] = min) -> Timeline:
        """The step with a stopwatch that took as long as `of` says: the shortest, which others have disturbed least.

        One alone takes no longer than that, whatever the disturbance.
        """
        goal = of([total for total, _, _ in self._watched])
        total, computed, full = min(self._watched, key=lambda one: abs(one[0] - goal))
        return Timeline(
            model=self.name,
            batch=self.batch,
            threads=og.get_num_threads(),
            alone=min(of(self._alone), total),
            buckets=tuple(Bucket(min(at, computed), nbytes) for at, nbytes in full),
            computed=computed,
            total=total,
        )
