"""Ranks that are not of one mind: rank 1 is not. All must hear of it, and have the same state afterwards."""

import numpy as np
import onednn_graph as og
from rank_programs import failure, main

OTHER = 1
MESSAGES = ("told", "steps", "skipped")


def model(comm, activation="relu", optimizer=None, precision="f32", bias=False, width=3):
    """A trainer of a dense layer for batches of any size, and its graph."""
    graph = og.Graph()
    x, target = graph.input("x", "f32", [-1, 4]), graph.input("t", "f32", [-1, width])
    w = graph.parameter(np.ones((4, width), np.float32), name="w")
    made = getattr(graph, activation)(graph.matmul(x, w))
    if bias:
        made = graph.add(made, made)
    loss = og.training.mean_squared_error(graph, made, target)
    optimizer = optimizer or og.training.SGD(0.125, momentum=0.5)
    return og.training.Trainer(graph, loss, optimizer, comm=comm, precision=precision), graph


def batch(step, count=8, width=4, dtype=np.float32):
    rng = np.random.default_rng(step)
    return {"x": rng.normal(size=(count, width)).astype(dtype), "t": np.zeros((count, 3), np.float32)}


def steps(comm, other, trainer=None):
    """Three steps, of which the second is another one on one rank; all hear of it, and go on with the third."""
    trainer, graph = trainer or model(comm)
    trainer.step(batch(comm.rank))
    told = failure(lambda: other(trainer) if comm.rank == OTHER else trainer.step(batch(10 + comm.rank)))
    trainer.step(batch(20 + comm.rank))
    return {
        "told": np.array(told),
        "steps": np.array(trainer.steps),
        "skipped": np.array(trainer.skipped),
    } | {f"parameter {name}": np.array(array) for name, array in graph.parameters.items()}


def takes_fewer(comm):
    """8, 8 and 7: that is no matter."""
    return steps(comm, lambda trainer: trainer.step(batch(11, count=7)))


def takes_narrower(comm):
    return steps(comm, lambda trainer: trainer.step(batch(11, width=3)))


def takes_another_type(comm):
    return steps(comm, lambda trainer: trainer.step(batch(11, dtype=np.complex64)))


def leaves_something_out(comm):
    return steps(comm, lambda trainer: trainer.step({"x": batch(11)["x"]}))


def has_nan(comm):
    def other(trainer):
        feeds = batch(11)
        feeds["x"][3, 2] = np.nan
        trainer.step(feeds)

    return steps(comm, other)


def fails_to_compile(comm):
    def other(trainer):
        real = og.Graph.compile

        def broken(*args, **kwargs):
            og.Graph.compile = real
            raise og.errors.LibraryError("no kernel for that")

        og.Graph.compile = broken
        trainer.step(batch(11, count=5))

    return steps(comm, other)


def is_out_of_memory(comm):
    def other(trainer):
        trainer.step(batch(11, count=1 << 55)) if False else trainer.step(
            {
                "x": np.broadcast_to(np.float32(1), (1 << 50, 4)),
                "t": np.broadcast_to(np.float32(1), (1 << 50, 3)),
            }
        )

    return steps(comm, other)


def breaks_off(comm, calls=1, trainer=None):
    """In the midst of a step, after so many tensors were put or summed."""

    def other(trainer):
        left = calls

        def counted(real):
            def call(*args):
                nonlocal left
                left -= 1
                if left < 0:
                    del comm.put, comm.total
                    raise MemoryError("no room for a gradient")
                return real(*args)

            return call

        comm.put, comm.total = counted(comm.put), counted(comm.total)
        trainer.step(batch(11))

    return steps(comm, other, trainer)


def breaks_off_at_once(comm):
    return breaks_off(comm, 0)


def does_another_step_than_others(comm):
    return steps(comm, lambda trainer: trainer.validate([batch(11)]))


def has_another_rate(comm):
    rate = 0.1

    def other(trainer):
        nonlocal rate
        rate = 0.2
        try:
            trainer.step(batch(11))
        finally:
            rate = 0.1

    return steps(comm, other, model(comm, optimizer=og.training.SGD(lambda _: rate)))


def makes(comm, **other):
    told = failure(lambda: model(comm, **(other if comm.rank == OTHER else {})))
    model(comm)[0].step(batch(0))  # and goes on
    return {"told": np.array(told)}


def makes_another_op(comm):
    return makes(comm, activation="tanh")


def makes_more_ops(comm):
    return makes(comm, bias=True)


def makes_another_optimizer(comm):
    return makes(comm, optimizer=og.training.SGD(0.125, momentum=0.25))


def makes_another_precision(comm):
    return makes(comm, precision="bf16")


def makes_another_parameter(comm):
    return makes(comm, width=2)


if __name__ == "__main__":
    main(globals(), {})
