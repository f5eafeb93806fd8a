"""How long a step takes on several ranks: measured, and simulated for as many as there are nowhere near.

    mpirun -n 2 python benchmarks/ranks.py                      # exchanges of several sizes, in turns
    python benchmarks/ranks.py --profile resnet50,bert_base     # measures steps on one rank, for simulations
    python benchmarks/ranks.py --simulate 16,1024 --models resnet50
    mpirun -n 4 python benchmarks/ranks.py --check dense        # what a simulation says, beside what is

Without an option, beside each other, in turns: the step without an exchange, with it in buckets of several sizes, and
the exchange alone. Times are medians over the steps of the slowest rank. What `--profile` and `--check` measure
is kept in `results/ranks.json`, of which `figures.py` makes the tables of the guide.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np
import onednn_graph as og
from attrs import evolve
from machines import kind
from onednn_graph.graph.training.averaging import averaged
from onednn_graph.graph.training.communication import MpiCommunicator
from onednn_graph.ops.data_types import DataType
from rank_figures import RESULTS, kept_timeline, results
from rank_simulation import NETWORKS, Network, Timeline, efficiency, faster, fitted, on
from rank_steps import MODELS, Timed


def step(batch: int, width: int, layers: int, comm: MpiCommunicator | None) -> tuple[Callable[[], None], int]:
    """A forward and backward pass through dense layers, bound to arrays; and the bytes of its gradients."""
    graph = og.Graph()
    h = graph.input("x", "f32", [batch, width])
    weights = [graph.input(f"w{i}", "f32", [width, width]) for i in range(layers)]
    for w in weights:
        h = graph.op("ReLU", graph.op("MatMul", h, w))
    loss = graph.op("ReduceMean", h, axes=[0, 1], keep_dims=False)
    found = [loss, *graph.gradients(loss, weights)]
    if comm is not None:
        found = list(averaged(graph, comm, loss, found[1:]))
    for tensor in found:
        graph.output(tensor)
    model = graph.compile()
    rng = np.random.default_rng(1)
    inputs = {t.name: (rng.normal(size=t.dims) / 30).astype(np.float32) for t in model.inputs}
    made = zip(model.output_names, graph.outputs, strict=True)
    outputs = {name: np.empty(graph.tensor(t.id).dims, np.float32) for name, t in made}
    return model.bind(inputs, outputs), layers * width * width * 4


def exchange(comm: MpiCommunicator, nbytes: int) -> Callable[[], None]:
    """The means of so many bytes, and nothing else."""
    count = nbytes // 4
    piece = comm.bucket_bytes // (2 if comm.data_type is DataType.bf16 else 4)
    sizes = [min(piece, count - at) for at in range(0, count, piece)]
    numbers = comm.buckets([((size,), comm.data_type) for size in sizes])
    values = np.ones(max(sizes), np.float32)

    def run() -> None:
        for number, size in zip(numbers, sizes, strict=True):
            comm.put(number, 0, values[:size])
        for number, size in zip(numbers, sizes, strict=True):
            comm.get(number, 0, values[:size])

    return run


def keep(part: str, name: str, found: dict[str, Any]) -> None:
    """Adds to it, with the machine and the day."""
    kept = results()
    kept[part][name] = {"machine": kind(), "date": datetime.now(UTC).date().isoformat(), **found}
    kept[part] = dict(sorted(kept[part].items()))
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def rounded(timeline: Timeline) -> dict[str, Any]:
    """As it is kept: in steps of 10 µs."""
    found = timeline.to_json()
    for name in ("alone", "computed", "total"):
        found[name] = round(found[name], 5)
    found["buckets"] = [{**one, "ready": round(one["ready"], 5)} for one in found["buckets"]]
    return found


def profile(model: str, batch: int | None, turns: int) -> Timeline:
    """Measures a step on this rank alone."""
    timed = Timed(model, batch or MODELS[model][1])
    timed.turn()
    timed.forget()
    for _ in range(turns):
        timed.turn()
    return timed.timeline()


def told(timeline: Timeline, networks: list[Network], ranks: list[int]) -> str:
    """What simulations of a step come to."""
    lines = [
        f"{timeline.model}, batch {timeline.batch}, {timeline.threads} threads: {timeline.alone * 1e3:.0f} ms alone, "
        f"{timeline.nbytes / 1e6:.0f} MB in {len(timeline.buckets)} buckets"
    ]
    for network in networks:
        for algorithm in ("halving", "ring"):
            one = evolve(network, algorithm=algorithm)
            each = ", ".join(
                f"{n}: {efficiency(timeline, one, n):.2f} (waits {on(timeline, one, n).waited * 1e3:.0f} ms)"
                for n in ranks
            )
            lines.append(f"  {network.name:9} {algorithm:8} efficiency on {each}")
    return "\n".join(lines)


def exchange_times(comm: MpiCommunicator, nbytes: int, turns: int = 20) -> tuple[float, float]:
    """Seconds of a sum of one number, and of so many bytes: medians."""
    medians: list[float] = []
    for count in (1, nbytes // 4):
        values, out = np.ones(count, np.float32), np.empty(count, np.float32)
        times: list[float] = []
        for _ in range(turns):
            comm.mean(0.0)
            begin = perf_counter()
            comm.total(values, out)
            times.append(perf_counter() - begin)
        medians.append(statistics.median(times[2:]))
    return medians[0], medians[1]


def check(model: str, batch: int | None, turns: int) -> None:
    """Holds a simulation against steps of all ranks: computation and network are measured, the step is predicted.

    On one machine the CPUs that compute move the data, so that nothing is hidden.
    """
    from mpi4py import MPI

    comm = og.training.mpi()
    timed = Timed(model, batch or MODELS[model][1])
    trainer = timed.training.trainer(comm)
    steps: list[float] = []
    for turn in range(turns + 1):
        comm.mean(0.0)
        timed.turn()
        comm.mean(0.0)
        begin = perf_counter()
        trainer.step(timed.training.feeds)
        steps.append(perf_counter() - begin)
        if not turn:
            timed.forget()
            steps.clear()
    small, large = exchange_times(comm, 4 << 20)
    gathered = MPI.COMM_WORLD.gather(
        (timed.timeline(statistics.median).to_json(), statistics.median(steps), small, large)
    )
    if gathered is None:
        return
    timeline = Timeline.from_json(max((one for one, *_ in gathered), key=lambda one: one["total"]))
    seconds, small, large = (max(one[n] for one in gathered) for n in (1, 2, 3))
    alpha, beta = fitted(comm.size, small, 4 << 20, large) if comm.size > 1 else (0.0, 0.0)
    outcome = on(timeline, Network("this machine", alpha, beta, busy=1.0), comm.size)
    found = {
        "model": model, "ranks": comm.size, "batch": timeline.batch, "threads": timeline.threads,
        "alone": timeline.alone, "copies": timeline.total, "alpha": alpha, "beta": beta,
        "predicted": outcome.seconds, "measured": seconds,
    }  # fmt: skip
    keep(
        "checks",
        f"{model} {comm.size}",
        {n: float(f"{v:.4g}") if isinstance(v, float) else v for n, v in found.items()},
    )
    print(
        f"{model} on {comm.size} ranks: alone {timeline.alone * 1e3:.1f} ms, with copies {timeline.total * 1e3:.1f}, "
        f"α {alpha * 1e6:.0f} µs, {1e-9 / beta if beta else 0:.2f} GB/s; predicted {outcome.seconds * 1e3:.1f} ms, "
        f"measured {seconds * 1e3:.1f}, {outcome.seconds / seconds - 1:+.0%}",
        flush=True,
    )


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--profile", default="", metavar="MODELS", help=f"measure steps: {', '.join(MODELS)}")
    parser.add_argument("--check", default="", metavar="MODELS", help="hold simulations against these ranks")
    parser.add_argument("--simulate", type=numbers, default=[], metavar="RANKS", help="as 16,1024")
    parser.add_argument("--models", default="", help="to simulate; all that were measured by default")
    parser.add_argument("--alpha", type=float, help="seconds from rank to rank, of your network")
    parser.add_argument("--beta", type=float, help="seconds for a byte, of your network")
    parser.add_argument("--per-node", type=int, default=1, help="ranks of a node, which share its connection")
    parser.add_argument("--faster", type=float, default=1.0, help="times as fast as what was measured")
    parser.add_argument("--batch", type=int, help="of each rank")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    for model in filter(None, options.check.split(",")):
        check(model, options.batch, options.turns)
    for model in filter(None, options.profile.split(",")):
        keep("steps", model, rounded(profile(model, options.batch, options.turns)))
    if options.simulate:
        networks = list(NETWORKS)
        if options.alpha is not None or options.beta is not None:
            networks = [Network("given", options.alpha or 0.0, options.beta or 0.0)]
        if options.per_node > 1:
            inside = Network("a node's memory", 1e-6, 1 / 5e9)
            networks = [evolve(one, per_node=options.per_node, inside=inside) for one in networks]
        for model in options.models.split(",") if options.models else results()["steps"]:
            print(told(faster(kept_timeline(model), options.faster), networks, options.simulate))
    elif not (options.check or options.profile):
        buckets(options.batch or 64, options.turns)


def buckets(batch: int, turns: int, width: int = 1024, layers: int = 8) -> None:
    """Steps with buckets of several sizes, beside each other."""
    base = og.training.mpi()
    alone, nbytes = step(batch, width, layers, None)
    ways: dict[str, Callable[[], None]] = {"step without exchange": alone}
    for data_type in ("f32", "bf16"):
        for mib in (0.25, 1, 4, 16, 64):
            comm = og.training.mpi(bucket_bytes=int(mib * 2**20), data_type=data_type, split_cores=False)
            ways[f"{data_type}, buckets of {mib:5} MiB: step"] = step(batch, width, layers, comm)[0]
            ways[f"{data_type}, buckets of {mib:5} MiB: exchange alone"] = exchange(comm, nbytes)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 2):
        for name, run in ways.items():
            base.mean(0.0)
            start = perf_counter()
            run()
            base.mean(0.0)  # until the slowest has done it
            if turn >= 2:
                seconds[name].append(perf_counter() - start)
    if base.rank == 0:
        print(
            f"{base.size} ranks, {og.get_num_threads()} threads each, {nbytes / 2**20:.1f} MiB of gradients"
        )
        for name, times in seconds.items():
            print(f"{name:42} {statistics.median(times) * 1e3:8.2f} ms, best {min(times) * 1e3:8.2f}")


if __name__ == "__main__":
    main()
