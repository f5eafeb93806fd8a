"""Draws a step of training on one of several ranks, as a profile sees it.

    mpirun -n 2 python benchmarks/rank_picture.py

`--trace` writes what Perfetto opens as well. Models are those of `rank_steps.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import onednn_graph as og
from onednn_graph.graph.pictures.profiles import rows_of
from rank_steps import MODELS

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pages" / "pictures" / "ranks.png"
COPIES = ("HostMeanStart", "HostMeanEnd")
ROWS = {
    "forward, backward, update": "#4c78a8",
    "into and out of buckets": "#e8a33d",
    "a bucket fills": "#8fc1d4",
    "exchange under way": "#59a14f",
    "waiting": "#d1495b",
}
"""What is drawn, from above, and in which colour."""


def row(event: og.profiling.Event) -> str | None:
    """Where an event is drawn."""
    kinds = og.profiling.EventKind
    beside = {kinds.filling: "a bucket fills", kinds.exchange: "exchange under way", kinds.wait: "waiting"}
    if event.kind is kinds.partition:
        return None
    work = "into and out of buckets" if event.name in COPIES else "forward, backward, update"
    return beside.get(event.kind, work)


def draw(events: Sequence[og.profiling.Event], title: str, path: Path) -> None:
    """The picture, on white so that it is read on dark pages too."""
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9, "text.color": "#57606a"})
    figure, axis = pyplot.subplots(figsize=(10, 2.6), facecolor="white")
    begin = min(event.start for event in events)
    for place, (name, colour) in enumerate(reversed(ROWS.items())):
        there = [event for event in events if row(event) == name]
        lanes, _ = rows_of(there)  # exchanges overlap
        numbers = {lane: n for n, lane in enumerate(sorted({lane for _, lane in lanes}, reverse=True))}
        height = 0.76 / max(1, len(numbers))
        for event, lane in lanes:
            span = ((event.start - begin) * 1e3, event.seconds * 1e3)
            low = place - 0.38 + height * numbers[lane]
            axis.broken_barh([span], (low, height), color=colour, edgecolor="white", linewidth=0.4)
    axis.set_yticks(range(len(ROWS)), list(reversed(ROWS)))
    axis.set_xlabel("ms")
    axis.set_title(title, fontsize=10, fontweight="bold", loc="left", color="#22262c")
    axis.tick_params(length=0, colors="#57606a")
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axis.grid(axis="x", color="#d0d7de", linewidth=0.5)
    axis.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", default="dense", choices=MODELS)
    parser.add_argument("--batch", type=int, default=256, help="of each rank")
    parser.add_argument("--trace", type=Path, help="where the trace of rank 0 goes")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    comm = og.training.mpi()
    training = MODELS[options.model][0](options.batch)
    trainer = training.trainer(comm)
    for _ in range(5):
        trainer.step(training.feeds)
    with og.profile() as prof:
        trainer.step(training.feeds)
    if comm.rank == 0:
        title = f"a step on one of {comm.size} ranks: {options.model}, batch {options.batch}"
        draw(prof.events, title, options.picture)
        if options.trace is not None:
            prof.save_trace(options.trace)
        print(prof)


if __name__ == "__main__":
    main()
