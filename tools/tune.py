"""What `onednn-graph tune` does, for the partitions of a graph and for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..graph.runtime.progress import show_progress
from .console import console, emit_json, milliseconds, table, working
from .ending import Ended, Exit, say
from .graph_files import loaded
from .machine import MOST_SECONDS, Fit, fitted, forgotten, measured
from .measuring import Sample

MACHINE_SECONDS = 300.0
"""That `tune --machine` measures by default."""


def tune_graph(file: Path, shapes: Sequence[str], seconds: float, *, as_json: bool) -> None:
    """Measures the partitions of a graph, and says what was considered and chosen.

    Args:
        file: the graph's.
        shapes: of inputs that leave sizes open, as the command takes them.
        seconds: for all partitions together.
        as_json: whether to write JSON.
    """
    with working(f"reading {file}"):
        graph = loaded(file, shapes)
    found = graph.tune(seconds)
    labels = {partition.id: partition.label for partition in graph.get_partitions()}
    if as_json:
        emit_json(
            {
                str(number): None
                if one is None
                else {
                    "ops": labels[number],
                    "strategy": one.strategy,
                    "kernels": one.implementations,
                    "considered": [
                        {
                            "strategy": c.strategy,
                            "measured_seconds": c.measured_seconds,
                            "estimated_seconds": c.estimated_seconds,
                            "scratch_bytes": c.scratch_bytes,
                        }
                        for c in one.considered
                    ],
                }
                for number, one in found.items()
            }
        )
        return
    rows: list[tuple[object, ...]] = []
    for number, one in found.items():
        if one is None:
            rows.append((number, labels[number], "shapes are known only at execution", "", ""))
        elif not one.considered:
            rows.append((number, labels[number], one.strategy, "", "there is nothing to choose"))
        for place, candidate in enumerate(() if one is None else one.considered):
            chosen = one is not None and candidate.strategy == one.strategy
            rows.append(
                (
                    "" if place else number,
                    "" if place else labels[number],
                    candidate.strategy,
                    milliseconds(candidate.measured_seconds),
                    "chosen" if chosen else "",
                )
            )
    table("", ("partition", "ops", "strategy", "ms", ""), rows, right=("ms",))


def tune_machine(seconds: float | None, seed: int, *, forget: bool, as_json: bool) -> None:
    """What `tune --machine` does.

    Args:
        seconds: to measure layers for; 300 by default, 600 at most.
        seed: of the layers.
        forget: whether to go back to the package's data instead.
        as_json: whether to write JSON.
    """
    if forget:
        there = forgotten()
        if as_json:
            emit_json({"forgotten": there})
        else:
            console.print("forgotten" if there else "there was nothing to forget", markup=False)
        return
    budget = MACHINE_SECONDS if seconds is None else min(seconds, MOST_SECONDS)
    layers: list[Sample] = []
    interrupted = False
    try:
        for layer in measured(
            budget, seed, lambda part, count: show_progress(f"measuring {part:.0%}, {count} layers …")
        ):
            layers.append(layer)  # noqa: PERF402 -- an interrupt must find those that are there
    except KeyboardInterrupt:
        interrupted = True
        say("stopped; what was measured is kept")
    finally:
        show_progress(None)
    fit = fitted(layers)
    if as_json:
        emit_json({"layers": fit.layers, "before": fit.before, "after": fit.after, "kept": fit.kept})
    else:
        _print_fit(fit)
    if interrupted:
        raise Ended(Exit.interrupted)


def _print_fit(fit: Fit) -> None:
    told = f"{fit.layers} layers: the choice took {fit.before:.3f} times the best one's time, fitted {fit.after:.3f}"
    console.print(
        f"{told}; {'used from now on' if fit.kept else 'the data of the package stay'}", markup=False
    )
