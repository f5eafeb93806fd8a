"""Tables of the guide to many processes: what simulations say of many ranks, and what they are held against."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from machines import PAGES
from rank_simulation import NETWORKS, Timeline, efficiency, faster, on

RESULTS = PAGES / "ranks.json"
"""What `ranks.py` has measured: steps by model, and by model and ranks what simulations are held against."""
RANKS = (16, 256, 1024, 4096)
FASTER = 16
"""As many times as fast as what was measured: nodes of some dozens of CPUs."""
SHOWN = ("1 Gb/s", "10 Gb/s", "100 Gb/s")
NAMES = {
    "bert_base": "BERT base",
    "resnet50": "ResNet-50",
    "resnet18": "ResNet-18",
    "dense": "eight dense layers",
}
ALGORITHMS = {"halving": "halving and doubling", "ring": "ring"}

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Columns, and rows."""


def results() -> dict[str, Any]:
    """What is kept."""
    if RESULTS.exists():
        return json.loads(RESULTS.read_text(encoding="utf-8"))
    return {"steps": {}, "checks": {}}


def kept_timeline(model: str) -> Timeline:
    """The step of a model as `ranks.py --profile` has measured it."""
    found = results()["steps"][model]
    return Timeline.from_json(
        {name: value for name, value in found.items() if name not in ("machine", "date")}
    )


def steps() -> Table:
    """What the simulated steps are like on one rank."""
    columns = (
        "model",
        "batch of a rank",
        "step",
        "gradients",
        "buckets",
        "first bucket full after",
        "measured",
    )
    rows: list[tuple[str, ...]] = []
    for model, found in results()["steps"].items():
        one = kept_timeline(model)
        first = min(bucket.ready for bucket in one.buckets)
        rows.append((
            NAMES[model], str(one.batch), f"{one.alone:.2f} s", f"{one.nbytes / 1e6:.0f} MB", str(len(one.buckets)),
            f"{first:.2f} s", f"{found['machine']}, {one.threads} threads, {found['date']}",
        ))  # fmt: skip
    return columns, rows


def efficiencies() -> Table:
    """Of the simulated steps, for each network and algorithm."""
    columns = (
        "model",
        "network",
        "exchange",
        *(f"{ranks} ranks" for ranks in RANKS),
        f"waits at {RANKS[-1]}",
    )
    rows: list[tuple[str, ...]] = []
    for model in results()["steps"]:
        for times in (1, FASTER):
            timeline = faster(kept_timeline(model), times)
            name = NAMES[model] + (f", {times} times as fast" if times > 1 else "")
            for network in NETWORKS:
                for algorithm, words in ALGORITHMS.items() if network.name in SHOWN else ():
                    if times > 1 and algorithm == "ring":
                        continue
                    one = evolve(network, algorithm=algorithm)
                    each = (f"{efficiency(timeline, one, ranks):.2f}" for ranks in RANKS)
                    waits = on(timeline, one, RANKS[-1]).waited
                    rows.append((name, network.name, words, *each, f"{waits * 1e3:.0f} ms"))
    return columns, rows


def networks() -> str:
    """What the networks are taken for, as a sentence."""
    each = (
        f"{one.name} {one.latency * 1e6:.0f} µs and {1e-9 / one.seconds_per_byte:.3g} GB/s"
        for one in NETWORKS
        if one.name in SHOWN
    )
    return "; ".join(each)


def checks() -> Table:
    """Predictions beside measurements."""
    columns = (
        "model", "ranks", "alone", "with copies", "α", "1 / β", "exchanges, predicted", "step, predicted", "measured",
        "error",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for one in results()["checks"].values():
        exchanges = one["predicted"] - one["copies"]
        rows.append((
            f"{NAMES[one['model']]}, batch {one['batch']}", str(one["ranks"]),
            *(f"{one[name] * 1e3:.0f} ms" for name in ("alone", "copies")),
            f"{one['alpha'] * 1e6:.0f} µs" if one["alpha"] else "",
            f"{1e-9 / one['beta']:.1f} GB/s" if one["beta"] else "",
            f"{exchanges * 1e3:.0f} ms", f"{one['predicted'] * 1e3:.0f} ms", f"{one['measured'] * 1e3:.0f} ms",
            f"{one['predicted'] / one['measured'] - 1:+.0%}",
        ))  # fmt: skip
    return columns, rows


def worst() -> str:
    """How far predictions were away."""
    away = [abs(one["predicted"] / one["measured"] - 1) for one in results()["checks"].values()]
    return f"{max(away):.0%}"
