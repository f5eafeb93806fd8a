"""Draws, runs, shrinks and counts."""

from __future__ import annotations

import collections
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from children import Ended, Message, in_child
from onednn_graph.ops.registry import REGISTRY

from .case import Case
from .chains import case_of
from .running import NOTES, OTHERS, Outcome, run_case, verdict, watch_arenas
from .shrinking import shrink

BATCH = 300
"""Graphs of one child."""
TIMEOUT = 60.0
"""Seconds until a graph counts as hung."""


def run_alone(case: Case, before: Sequence[Case] = ()) -> Outcome:
    """A case in a child of its own, after others."""

    def work(send: Callable[[Message], None]) -> None:
        watch_arenas()
        for other in before:
            run_case(other)
        NOTES.append(lambda kernels: send({"kernels": kernels}))
        send({"outcome": asdict(run_case(case))})

    ended = in_child(work, TIMEOUT)
    return _outcome(ended)


def drawn(seed: int, number: int, kinds: tuple[str, ...]) -> tuple[Case, Outcome | None]:
    """A case; where drawing it fails, as gradients do that are not the derivative, an empty one and what was seen."""
    try:
        return case_of(seed, number, kinds), None
    except Exception as error:  # of the library's own, or about it
        detail = f"while it was drawn: {' '.join(str(error).split())}"
        return Case(), Outcome(status=f"error:{type(error).__name__}", detail=detail)


def _outcome(ended: Ended) -> Outcome:
    last = ended.messages[-1] if ended.messages else {}
    if "outcome" in last:
        return Outcome(**last["outcome"])
    status = "error:child" if ended.status.startswith(("exit", "ok")) else ended.status
    when = "at execution" if "kernels" in last else "at compile"
    detail = f"{when} {' '.join(ended.errors.split())[-300:]}"
    return Outcome(status=status, detail=detail, kernels=last.get("kernels", []))


@dataclass
class Finding:
    """Something wrong.

    Attributes:
        outcome: of the shrunk case.
        case: shrunk.
        seed, number: what it was drawn as.
        before: cases that must run first in the same process for it to show.
        others: what others make of the case.
        drawn_of: where drawing it failed, so that there is no case, the kinds that it was drawn of.
    """

    outcome: Outcome
    case: Case
    seed: int
    number: int
    before: list[Case] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    drawn_of: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """What findings of one class share."""
        kinds = "+".join(map(family, self.case.kinds))
        types = "/".join(sorted({w.type for w in self.case.wires.values()}))
        return f"{self.outcome.status} {kinds} {types} {'/'.join(conditions(self.case)) or 'plain'} [{self.kernel}]"

    @property
    def kernel(self) -> str:
        """The names of what ran, without what describes it."""
        return "; ".join(kernel_names(self.outcome.kernels))[:120]

    def to_json(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {
            "signature": self.signature,
            "status": self.outcome.status,
            "detail": self.outcome.detail,
            **settings,
            "kernels": self.outcome.kernels,
            "others": self.others,
            "seed": self.seed,
            "number": self.number,
            **({"before": [c.to_json() for c in self.before]} if self.before else {}),
            **({"drawn_of": self.drawn_of} if self.drawn_of else {}),
            "case": self.case.to_json(),
        }


def family(kind: str) -> str:
    """The kind, or its family where the library has one kernel for the whole of it."""
    schema = REGISTRY.resolve(kind)[0]
    alike = schema.family in ("binary", "eltwise", "reduction") and not kind.endswith("Backward")
    return schema.family if alike and kind not in ("Select", "GreaterEqual") else kind


def kernel_names(kernels: Sequence[str]) -> list[str]:
    """Implementations, each once."""
    steps = [step for k in kernels for step in k.split("]: ", 1)[-1].split("), ")]
    return list(dict.fromkeys(re.sub(r"tensor \d+ ", "", step).strip(")") + ")" for step in steps if step))


def conditions(case: Case) -> list[str]:
    """What is special about a case."""
    found: set[str] = set()
    made = {w for node in case.nodes for w in node.outputs}
    for number, wire in case.wires.items():
        if wire.layout is not None and wire.strides is not None:
            side = "out" if number in made else "in"
            layout = wire.layout
            moved = [a for a in layout.order if wire.shape[a] != 1]
            if moved != sorted(moved):
                found.add(f"permuted-{side}")
            if any(layout.gaps) or layout.step != 1:
                found.add(f"gaps-{side}")
            if layout.still:
                found.add("still")
            if any(wire.shape[int(a)] == 1 for a in layout.units):
                found.add(f"unit-strides-{side}")
        if 0 in wire.shape:
            found.add("empty")
        if wire.unknown:
            found.add("unknown")
    run = case.run
    found |= {n for n in ("opaque", "bound") if getattr(run, n)}
    found |= {run.fpmath} - {"strict"}
    if any(v.layouts is not None for v in run.variants):
        found.add("compiled-again")
    return sorted(found)


@dataclass
class Settings:
    """What a campaign was asked for."""

    graphs: int = 1000
    seconds: float = 0.0
    seed: int = 0
    kinds: tuple[str, ...] = ()
    out: Path | None = None
    known: tuple[str, ...] = ()
    isa: str = "default"
    threads: int = 1
    shrink_seconds: float = 8.0
    per_class: int = 3

    @property
    def described(self) -> dict[str, Any]:
        return {"isa": self.isa, "threads": self.threads}


class Campaign:
    """A run over many graphs."""

    def __init__(self, settings: Settings, show: Callable[[str], None] = print) -> None:
        self.settings, self.show = settings, show
        self.graphs = 0
        self.judged = 0.0
        self.findings: list[Finding] = []
        self.classes: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.coarse: collections.Counter[str] = collections.Counter()
        self.seconds = 0.0

    def run(self) -> int:
        """Runs until there are enough graphs or seconds.

        Returns:
            How many findings there are that are not known.
        """
        began = time.monotonic()
        first, settings = 0, self.settings

        def left() -> float:
            return settings.seconds - (time.monotonic() - began) if settings.seconds else 1.0

        while left() > 0 and (settings.seconds or first < settings.graphs):
            count = BATCH if settings.seconds else min(BATCH, settings.graphs - first)
            self._batch(first, count)
            first += count
            if first % (20 * BATCH) == 0:
                self.show(self.line(time.monotonic() - began))
        self.seconds = time.monotonic() - began
        return len(self.findings)

    def line(self, seconds: float) -> str:
        return (
            f"{self.graphs} graphs in {seconds:.0f} s, {sum(self.coarse.values())} wrong, "
            f"{len(self.classes)} classes, {100 * self.judged / max(1, self.graphs):.1f} % of elements judged"
        )

    def _batch(self, first: int, count: int) -> None:
        """Runs graphs in a child, and in another one what is left when it dies."""
        start = first
        while start < first + count:
            stop, begin = first + count, start

            def work(send: Callable[[Message], None], begin: int = begin, stop: int = stop) -> None:
                watch_arenas()
                for number in range(begin, stop):
                    send({"begin": number})
                    case, undrawn = drawn(self.settings.seed, number, self.settings.kinds)
                    outcome = undrawn or run_case(case)
                    if outcome.ok:
                        send({"ok": number, "judged": outcome.judged, "kinds": case.kinds})
                    else:
                        send({"bad": number, "outcome": asdict(outcome), "kinds": case.kinds})

            ended = in_child(work, TIMEOUT)
            running = None
            for message in ended.messages:
                if "begin" in message:
                    running = message["begin"]
                    self.graphs += 1
                    continue
                self.kinds.update(message["kinds"])
                self.judged += message.get("judged", 1.0)
                if "bad" in message:
                    self._found(message["bad"], Outcome(**message["outcome"]), begin)
            if ended.status == "ok":
                return
            if running is None:
                raise RuntimeError(f"a child ended with {ended.status}: {ended.errors}")
            # Or the one before, where a heap that it has destroyed is only noticed between two graphs.
            self._found(running, _outcome(Ended([], ended.status, ended.errors)), begin)
            start = running + 1

    def _found(self, number: int, outcome: Outcome, begin: int) -> None:
        """Shrinks what is not known well already."""
        settings = self.settings
        case, undrawn = drawn(settings.seed, number, settings.kinds)
        coarse = _coarse(case, outcome)
        self.coarse[coarse] += 1
        if self.coarse[coarse] > settings.per_class:
            return
        if undrawn is not None:
            self._note(Finding(undrawn, case, settings.seed, number, drawn_of=settings.kinds))
            return
        before: list[Case] = []
        alone = run_alone(case)
        if alone.status != outcome.status:
            history = [drawn(settings.seed, n, settings.kinds)[0] for n in range(begin, number)]
            history = [one for one in history if one.nodes]
            before = _needed(history, lambda some: run_alone(case, some).status == outcome.status)
            alone = run_alone(case, before)
            if alone.status != outcome.status:
                alone = Outcome(outcome.status, outcome.detail + " (not again)", outcome.kernels)
        small = case
        if alone.status == outcome.status and "(not again)" not in alone.detail:
            small = shrink(
                case, lambda c: run_alone(c, before).status == outcome.status, settings.shrink_seconds
            )
            alone = run_alone(small, before)
            if alone.status != outcome.status:  # it does not always show
                alone = Outcome(outcome.status, f"{outcome.detail} (not always)", outcome.kernels)
        self._note(Finding(alone, small, settings.seed, number, before))

    def _note(self, finding: Finding) -> None:
        """Shows a finding, unless it is known, and adds it to the file."""
        settings = self.settings
        if any(one in finding.signature for one in settings.known):
            return
        if finding.case.nodes:
            finding.others = _others(finding.case)
        self.findings.append(finding)
        self.classes[finding.signature] += 1
        if self.classes[finding.signature] == 1:
            self.show(f"{finding.signature}\n    {finding.outcome.detail}\n    others: {finding.others}")
        if settings.out is not None:
            with settings.out.open("a") as file:
                file.write(json.dumps(finding.to_json(settings.described)) + "\n")

    def summary(self) -> str:
        lines = [self.line(self.seconds)]
        lines += [f"{count:5}  {signature}" for signature, count in self.classes.most_common()]
        return "\n".join(lines)


def _coarse(case: Case, outcome: Outcome) -> str:
    """What is likely to be the same, before it is shrunk."""
    if not case.nodes:
        return f"{outcome.status} {outcome.detail[:60]}"
    if outcome.status.startswith("error"):
        return f"{outcome.status} {outcome.detail[-40:]}"
    crashed = outcome.status.startswith(("signal", "hang"))
    kinds = (
        "+".join(map(family, case.kinds[:2])) if crashed or not outcome.producer else family(outcome.producer)
    )
    return f"{outcome.status} {kinds} {kernel_names(outcome.kernels)[:3]} {conditions(case)[:2]}"


def _others(case: Case) -> dict[str, str]:
    """What NumPy, our ops one by one, and the library's own Graph API make of the case."""
    found: dict[str, str] = {}
    for other in OTHERS:

        def work(send: Callable[[Message], None], other: str = other) -> None:
            send({"status": verdict(case, other)})

        ended = in_child(work, TIMEOUT)
        found[other] = ended.messages[-1]["status"] if ended.messages else ended.status
    return found


def _needed(history: list[Case], shows: Callable[[list[Case]], bool]) -> list[Case]:
    """The part of a history without which nothing shows, by leaving out halves, quarters and so on."""
    size = max(1, len(history) // 2)
    while size >= 1 and history:
        i, left_out = 0, False
        while i < len(history):
            fewer = history[:i] + history[i + size :]
            if shows(fewer):
                history, left_out = fewer, True
            else:
                i += size
        if size == 1 and not left_out:
            break
        size = max(1, size // 2) if size > 1 else 0
    return history


def replay(entries: Sequence[dict[str, Any]]) -> list[Outcome]:
    """What came of cases that were written as JSON, each in a child of its own; one without a case is drawn again."""
    result: list[Outcome] = []
    for entry in entries:
        if "drawn_of" in entry:
            _, undrawn = drawn(entry["seed"], entry["number"], tuple(entry["drawn_of"]))
            result.append(undrawn or Outcome())
            continue
        before = [Case.from_json(c) for c in entry.get("before", [])]
        result.append(run_alone(Case.from_json(entry["case"]), before))
    return result


def in_environment(isa: str | None, threads: int) -> dict[str, str]:
    """Environment of a process that runs cases; `isa` stays as it is if None."""
    env = dict(os.environ)
    if isa is not None:
        env.pop("ONEDNN_MAX_CPU_ISA", None)
    if isa not in (None, "default"):
        env["ONEDNN_MAX_CPU_ISA"] = isa.upper()
    return env | {"OMP_NUM_THREADS": str(threads), "MALLOC_PERTURB_": "165", "FUZZ_GRAPHS": "ready"}


def isa_now() -> str:
    """What the library may use at most."""
    return os.environ.get("ONEDNN_MAX_CPU_ISA", "default").lower()
