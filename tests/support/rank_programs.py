"""What the ranks of a test do: `mpirun -n 2 python rank_programs.py PROGRAM FOLDER` leaves a file of each there."""

import os
import signal
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import onednn_graph as og
from onednn_graph.graph.training.averaging import averaged
from onednn_graph.graph.training.batch_norm import synchronise_batch_norm
from onednn_graph.graph.training.communication import mpi
from onednn_graph.ops.data_types import DataType

BATCH, CHANNELS, SIDE, CLASSES = 8, 4, 6, 4
STEPS = 3


def integers(seed, shape, high=3):
    return np.random.default_rng(seed).integers(-high + 1, high, shape).astype(np.float32)


def whole_batch(step=0):
    return {
        "x": integers(100 + step, (BATCH, 2, SIDE, SIDE)),
        "t": integers(200 + step, (BATCH, CLASSES)),
    }


PARAMETERS = {
    "w1": integers(1, (CHANNELS, 2, 3, 3), 2),
    "b1": integers(2, (CHANNELS,)),
    "w2": integers(3, (CHANNELS, CHANNELS, 3, 3), 2),
    "b2": integers(4, (CHANNELS,)),
    "w3": integers(5, (CHANNELS * SIDE * SIDE, CLASSES), 2),
}


def conv(graph, x, w, b):
    return graph.op(
        "Convolution",
        x,
        w,
        b,
        strides=[1, 1],
        pads_begin=[1, 1],
        pads_end=[1, 1],
        dilations=[1, 1],
        data_format="NCX",
        weights_format="OIX",
    )


def network(batch, comm=None):
    """A graph that gives the loss and its gradients, averaged over the ranks of a communicator; and its compiled form.

    The loss is linear in the last layer, so that all numbers are small integers over a power of two.
    """
    graph = og.Graph()
    x = graph.input("x", "f32", [batch, 2, SIDE, SIDE])
    target = graph.input("t", "f32", [batch, CLASSES])
    parameters = [graph.input(name, "f32", array.shape) for name, array in PARAMETERS.items()]
    w1, b1, w2, b2, w3 = parameters
    hidden = graph.op("ReLU", conv(graph, x, w1, b1))
    hidden = graph.op("ReLU", conv(graph, hidden, w2, b2))
    flat = graph.op("StaticReshape", hidden, shape=[batch, -1], special_zero=False)
    scores = graph.op("Multiply", graph.op("MatMul", flat, w3), target)
    loss = graph.op("ReduceMean", scores, axes=[0, 1], keep_dims=False)
    found = [loss, *graph.gradients(loss, parameters)]
    if comm is not None:
        found = list(averaged(graph, comm, loss, found[1:]))
    for name, tensor in zip(("loss", *PARAMETERS), found, strict=True):
        graph.output(tensor, name=f"mean_{name}")
    return graph


NORMALISED = (
    *("mean_loss", "mean_gamma", "mean_beta", "by_x"),
    *("y", "new_mean", "new_variance", "own_mean", "own_variance"),
)
"""Outputs of `normalised`."""


def normalised(batch, data_type="f64", comm=None):
    """A graph with BatchNorm, trained by the statistics of the batch."""
    graph = og.Graph()
    x = graph.input("x", data_type, [batch, 2, SIDE, SIDE])
    t = graph.input("t", data_type, [batch, 2, SIDE, SIDE])
    stats = [graph.input(name, data_type, [2]) for name in ("mean", "variance", "gamma", "beta")]
    made = graph.op(
        "BatchNormForwardTraining", x, *stats, epsilon=1e-3, momentum=0.75, data_format="NCX", outputs=5
    )
    loss = graph.op(
        "ReduceMean", graph.op("Multiply", graph.op("Square", made[0]), t), axes=[0, 1, 2, 3], keep_dims=False
    )
    if comm is not None:
        synchronise_batch_norm(graph, comm)
    gradients = graph.gradients(loss, [*stats[2:], x])
    found = [loss, *gradients[:2]]
    if comm is not None:
        found = list(averaged(graph, comm, loss, found[1:]))
    for name, tensor in zip(("loss", "gamma", "beta"), found, strict=True):
        graph.output(tensor, name=f"mean_{name}")
    graph.output(gradients[2], name="by_x")
    for name, tensor in zip(NORMALISED[-5:], made, strict=True):
        graph.output(tensor, name=name)
    return graph


def normalised_feeds(batch=BATCH, dtype=np.float64):
    rng = np.random.default_rng(7)
    feeds = {name: rng.normal(size=(batch, 2, SIDE, SIDE)) for name in ("x", "t")}
    feeds |= {name: rng.uniform(0.5, 2, 2) for name in ("mean", "variance", "gamma", "beta")}
    return {name: array.astype(dtype) for name, array in feeds.items()}


def part(feeds, comm):
    """The share of a rank in what has a batch."""
    return {
        name: np.array_split(array, comm.size)[comm.rank] if name in ("x", "t") else array
        for name, array in feeds.items()
    }


# --- programs ---


def buckets(comm):
    """Means of tensors of several types, again and again, and some of size zero."""
    results = {}
    for name in ("f32", "bf16", "f64"):
        sizes = [(5,), (), (0,), (3, 7), (1, 2, 3)]
        [number] = comm.buckets([(tuple(int(np.prod(s)) for s in sizes), DataType(name))])
        for turn in range(3):
            for piece, shape in enumerate(sizes):
                values = integers([comm.rank, turn, piece], shape, 9)
                comm.put(number, piece, values if name != "f64" else values.astype(np.float64))
            for piece, shape in enumerate(sizes):
                out = np.full(shape, np.nan, np.float64 if name == "f64" else np.float32)
                comm.get(number, piece, out)
                results[f"{name} {turn} {piece}"] = out
    return results


def rounding(comm):
    """Means in bf16 of numbers that bf16 does not hold."""
    [number] = comm.buckets([((1000,), DataType.bf16)])
    comm.put(number, 0, np.random.default_rng(comm.rank).normal(size=1000).astype(np.float32))
    out = np.empty(1000, np.float32)
    comm.get(number, 0, out)
    half = np.empty(1000, ml_dtypes.bfloat16)
    comm.get(number, 0, half)
    return {"mean": out, "half": half.astype(np.float32)}


def steps(comm, backend=None):
    """Losses and gradients of some steps."""
    model = network(BATCH // comm.size, comm).compile(backend=backend)
    results = {}
    for step in range(STEPS):
        found = model({**part(whole_batch(step), comm), **PARAMETERS})
        results |= {f"{step} {name}": np.array(found[name]) for name in model.output_names}
    return results


def steps_on_numpy(comm):
    return steps(comm, "numpy")


def batch_norm(comm, dtype=np.float64):
    model = normalised(BATCH // comm.size, np.dtype(dtype).name.replace("float", "f"), comm).compile()
    found = model(part(normalised_feeds(dtype=dtype), comm))
    return {name: np.array(found[name]) for name in NORMALISED}


def batch_norm_f32(comm):
    return batch_norm(comm, np.float32)


def at_once(comm):
    """What is not in buckets."""
    arrays = [integers(comm.rank, (3, 4)), np.full((), comm.rank, np.int64), np.zeros(0)]
    comm.broadcast(arrays)
    total = np.empty((2, 2), np.float64)
    comm.total(np.full((2, 2), comm.rank + 1.0).T, total.T)
    return {
        "first": arrays[0],
        "second": arrays[1],
        "total": total,
        "mean": np.array(comm.mean(comm.rank)),
        "threads": np.array(og.get_num_threads()),
        "cpus": np.array(sorted(os.sched_getaffinity(0))),
    }


def trained(batch, comm=None):
    """A trainer of a small network with BatchNorm, and its graph."""
    graph = og.Graph()
    x = graph.input("x", "f32", [batch, 2, SIDE, SIDE])
    target = graph.input("t", "f32", [batch, CLASSES])
    rng = np.random.default_rng(comm.rank if comm is not None else 0)  # rank 0 is who is right
    w1 = graph.parameter(rng.normal(size=(CHANNELS, 2, 3, 3)).astype(np.float32), name="w1")
    b1 = graph.parameter(rng.normal(size=CHANNELS).astype(np.float32), name="b1")
    stats = [graph.parameter(np.full(CHANNELS, v, np.float32), name=n) for n, v in (("m", 0), ("v", 1))]
    affine = [graph.parameter(np.full(CHANNELS, v, np.float32), name=n) for n, v in (("g", 1), ("b", 0))]
    w2 = graph.parameter(rng.normal(size=(CHANNELS * SIDE * SIDE, CLASSES)).astype(np.float32) / 8, name="w2")
    hidden, *running = graph.op(
        "BatchNormForwardTraining",
        conv(graph, x, w1, b1),
        *stats,
        *affine,
        epsilon=1e-3,
        momentum=0.5,
        data_format="NCX",
    )
    for parameter, value in zip(stats, running, strict=False):
        graph.assign(parameter, value)
    flat = graph.op("StaticReshape", graph.op("ReLU", hidden), shape=[batch, -1], special_zero=False)
    away = graph.op("Subtract", graph.op("MatMul", flat, w2), target)
    loss = graph.op("ReduceMean", graph.op("Square", away), axes=[0, 1], keep_dims=False)
    return og.training.Trainer(graph, loss, og.training.SGD(0.01, momentum=0.5), comm=comm), graph


def training(comm):
    """Losses and parameters after some steps, and after others from a file."""
    trainer, graph = trained(BATCH // comm.size, comm)
    losses = [trainer.step(part(whole_batch(step), comm)) for step in range(STEPS)]
    file = Path(sys.argv[2]) / "state.safetensors"
    trainer.save(file)
    again, other = trained(BATCH // comm.size, comm)
    again.load(file)
    losses += [one.step(part(whole_batch(9), comm)) for one in (trainer, again)]
    results = {name: np.array(array) for name, array in graph.parameters.items()}
    results |= {f"again {name}": np.array(array) for name, array in other.parameters.items()}
    return results | {"losses": np.array(losses)}


def _until_step_two(comm, end):
    model = network(BATCH // comm.size, comm).compile()
    for step in range(10):
        if step == 2 and comm.rank == comm.size - 1:
            end()
        model({**part(whole_batch(step), comm), **PARAMETERS})
    return {}


def fails(comm):
    def end():
        raise ValueError("the data ends in the middle")

    return _until_step_two(comm, end)


def is_killed(comm):
    return _until_step_two(comm, lambda: os.kill(os.getpid(), signal.SIGKILL))


def ends(comm):
    return _until_step_two(comm, lambda: sys.exit(0))


def exits_in_a_block(comm):
    with comm:
        return _until_step_two(comm, lambda: sys.exit(3))


def hangs(comm):
    return _until_step_two(comm, lambda: time.sleep(30))


def dense(comm=None, constant=False):
    """A trainer of two dense layers for batches of any size and sentences of any length, and its graph."""
    graph = og.Graph()
    x, target = graph.input("x", "f32", [-1, -1, 4]), graph.input("t", "f32", [-1, 3])
    w1 = graph.parameter(integers(1, (4, 5)) / 4, name="w1")
    w2 = graph.parameter(integers(2, (5, 3)) / 4, name="w2")
    words = graph.relu(graph.matmul(x, graph.constant(integers(1, (4, 5)) / 4) if constant else w1))
    away = graph.subtract(graph.matmul(graph.reduce_mean(words, axes=[1]), w2), target)
    loss = graph.reduce_mean(graph.square(away), axes=[0, 1])
    return og.training.Trainer(graph, loss, og.training.SGD(0.125, momentum=0.5), comm=comm), graph


def sentences(step, count=BATCH, length=3):
    return {"x": integers(step, (count, length, 4)), "t": integers(50 + step, (count, 3))}


def shares(comm):
    """Parts of other sizes on each rank and at each step, and sometimes none, whose means are those of the whole."""
    trainer, graph = dense(comm)
    losses, tested = [], []
    for step in range(STEPS):
        cuts = np.sort(np.random.default_rng(step).integers(0, BATCH + 1, comm.size - 1)).tolist()
        begin, end = [0, *cuts, BATCH][comm.rank : comm.rank + 2]
        mine = {name: array[begin:end] for name, array in sentences(step).items()}
        losses.append(trainer.step(mine))
        tested.append(trainer.validate([mine] if end > begin else [])["loss"])
    return {"losses": np.array(losses), "tested": np.array(tested), **graph.parameters}


def labelled(step, count=BATCH, length=5):
    """Sentences with a label for each word, of which some do not count; of the first one, none counts."""
    rng = np.random.default_rng(step)
    labels = rng.integers(0, 3, (count, length))
    labels[rng.random(labels.shape) < 0.6] = -100
    labels[0] = -100
    return {"x": integers(70 + step, (count, length, 4)), "y": labels}


def tagger(comm=None):
    """A trainer of a layer by the weighted mean of the losses of what counts, and its graph."""
    graph = og.Graph()
    x, y = graph.input("x", "f32", [-1, -1, 4]), graph.input("y", "s64", [-1, -1])
    logits = graph.output(graph.matmul(x, graph.parameter(integers(1, (4, 3)) / 4, name="w")), name="logits")
    loss = og.training.cross_entropy(
        graph, logits, y, ignore_index=-100, class_weights=[1, 4, 0.25], label_smoothing=0.1
    )
    return og.training.Trainer(graph, loss, og.training.SGD(0.125, momentum=0.5), comm=comm), graph


SCORES = {
    "accuracy": og.training.Accuracy("logits", "y", ignore_index=-100),
    "f1": og.training.F1Score("logits", "y", classes=3, ignore_index=-100),
    "precision": og.training.PrecisionScore("logits", "y", classes=3, ignore_index=-100),
}


def weighs(comm):
    """Parts whose labels count more or less, of which the first one has none that count, and of one all are short."""
    trainer, graph = tagger(comm)
    losses = []
    for step in range(STEPS):
        cuts = [1, 2, 2][: comm.size - 1]
        begin, end = [0, *cuts, BATCH][comm.rank : comm.rank + 2]
        mine = {name: array[begin:end] for name, array in labelled(step).items()}
        if comm.rank == 0:
            mine = {name: array[:, :2] for name, array in mine.items()}
        losses.append(trainer.step(mine))
    mine = {name: array[begin:end] for name, array in labelled(0).items()}
    told = trainer.validate([mine] if end > begin else [], SCORES)
    scores = np.array([told[name] for name in SCORES])
    return {"losses": np.array(losses), "scores": scores, **graph.parameters}


def lengths(comm):
    """Sentences of another length on each rank, so that each makes programs at other steps."""
    trainer, graph = dense(comm)
    for step in range(6):
        trainer.step(sentences(10 * comm.rank + step, 2, 1 + (comm.rank * step) % 3))
    return dict(graph.parameters)


def differs(comm):
    comm.meet("the sizes of buckets", (3, 4 + comm.rank))
    return {}


def normalises_unequal_parts(comm):
    trainer, _ = trained(3 + comm.rank, comm)
    trainer.step({name: array[: 3 + comm.rank] for name, array in whole_batch().items()})
    return {}


def trains_other_parameters(comm):
    trainer, _ = dense(comm, constant=comm.rank == 1)
    trainer.step(sentences(0))
    return {}


def validates_alone(comm):
    trainer, _ = dense(comm)
    trainer.step(sentences(0))
    if comm.rank:
        trainer.validate([sentences(1)])
    else:
        trainer.step(sentences(1))
    return {}


def is_fed_wrongly(comm):
    trainer, _ = dense(comm)
    wrong = {"x": np.zeros((1, 2, 7), np.float32)} if comm.rank else {}
    told = failure(lambda: trainer.step(sentences(0) | wrong))
    trainer.step(sentences(0))  # and goes on
    return {"steps": np.array(trainer.steps), "told": np.array(told)}


def failure(act):
    """What is raised."""
    try:
        act()
    except og.OneDNNGraphError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def files_of_rank_0(comm):
    """What rank 0 alone can write and read."""
    folder = Path(sys.argv[2]) / f"disk of {comm.rank}"
    trainer, graph = dense(comm)
    trainer.step(sentences(comm.rank))
    told = [failure(lambda: trainer.save(folder / "a")), failure(lambda: trainer.load(folder / "a"))]
    if comm.rank == 0:
        folder.mkdir()
    trainer.save(folder / "a")
    saved = {name: np.array(array) for name, array in graph.parameters.items()}
    trainer.step(sentences(7 + comm.rank))
    trainer.load(folder / "a")
    same = all(np.array_equal(saved[name], array) for name, array in graph.parameters.items())
    return {"told": np.array(told), "same": np.array(same), "steps": np.array(trainer.steps)}


def leaves_late(comm):
    """Rank 0 has all that it needs and ends, while the others are still busy with the same."""
    comm.mean(1.0)
    if comm.rank == comm.size - 1:
        time.sleep(2)
    comm.broadcast([np.zeros(5)])
    return {"ok": np.array(1)}


OPTIONS = {
    "normalises_unequal_parts": {"sync_batch_norm": True},
    "training": {"sync_batch_norm": True, "bucket_bytes": 1000},
    "hangs": {"timeout": 2},
    "steps": {"bucket_bytes": 700},
    "steps_on_numpy": {"bucket_bytes": 1},
}


def main(programs, options):
    program, folder = sys.argv[1:]
    comm = mpi(**options.get(program, {}))
    results = programs[program](comm)
    np.savez(Path(folder) / f"{comm.rank}.npz", **results)


if __name__ == "__main__":
    main(globals(), OPTIONS)
