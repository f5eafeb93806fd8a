"""An examination from end to end: both sides are run in processes of their own, and what they say is put together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from ...ops.errors import ArgumentError
from ...ops.records import frozen
from .layers import layers
from .records import Finding, Layer, Ours, Peer
from .subjects import Subject, shapes_of
from .threads import Machine, machine
from .timing import timed
from .worker import Mishap, Worker

ROUNDS = 6
"""Turns that each side has of its time; the other's threads sleep meanwhile."""
CHECKED = 30.0
"""Seconds after which no more ops are computed in double precision."""


@frozen(kw_only=True)
class Case:
    """What was found out, before anybody judges it.

    Attributes:
        subject: what was examined.
        machine: what the process has.
        peer, ours: how it runs there and here.
        layers: both side by side.
        asked: threads that the user has asked for; None for what they take themselves.
        made_up: inputs that nobody gave.
    """

    subject: Subject
    machine: Machine
    peer: Peer
    ours: Ours
    layers: tuple[Layer, ...]
    made_up: tuple[str, ...]
    asked: int | None = None

    @property
    def speedup(self) -> float | None:
        """The peer's time over ours; above 1 ours is faster."""
        if self.peer.timed is None or self.ours.timed is None:
            return None
        return self.peer.timed.least / self.ours.timed.least


@frozen(kw_only=True)
class Examined:
    """A case, and what there is to say of it."""

    case: Case
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; slow is not wrong."""
        return not any(one.severity == "wrong" for one in self.findings)


@frozen(kw_only=True)
class Options:
    """What the user wants.

    Attributes:
        inputs: an .npz file, or empty.
        shapes: as the command takes them.
        seed: of what is made up, and of torch's own random numbers.
        threads: of both sides; None for what they take themselves.
        seconds: how long to take times, all together; 0 for none.
        limit: seconds that a stage may take beside that.
    """

    inputs: str = ""
    shapes: tuple[str, ...] = ()
    seed: int = 0
    threads: int | None = None
    seconds: float = 4.0
    limit: float = 300.0


class _Sides:
    """Both workers, and what became of them."""

    def __init__(self, subject: Subject, options: Options, peer: Worker, ours: Worker) -> None:
        self.subject, self.options = subject, options
        self.peer_worker, self.our_worker = peer, ours
        self.peer = Peer(name="torch" if subject.kind == "torch" else "onnxruntime")
        self.ours = Ours(way="")
        self.groups: Sequence[Sequence[str]] = ()
        self.order: Sequence[str] = ()
        self.made_up: tuple[str, ...] = ()
        self.fingerprints = ["", ""]

    # --- stages ---

    def ask_peer(self, stage: str, **values: Any) -> Any:
        """What the peer answers; None where it does not, which is kept."""
        if self.peer.problem:
            return None
        answer = self.peer_worker.ask(stage, self.options.limit, **values)
        if answer is None and (mishap := self.peer_worker.mishap):
            _refuse(mishap)
            self.peer = evolve(self.peer, problem=mishap.text, crashed=mishap.crashed)
        return answer

    def ask_ours(self, stage: str, **values: Any) -> Any:
        """Likewise ours."""
        if self.ours.problem:
            return None
        answer = self.our_worker.ask(stage, self.options.limit, **values)
        if answer is None and (mishap := self.our_worker.mishap):
            _refuse(mishap)
            self.ours = evolve(self.ours, problem=mishap.text, crashed=mishap.crashed)
        return answer

    def load(self) -> None:
        """Both have it in memory, and have run it."""
        if told := self.ask_peer("load"):
            self.peer = evolve(self.peer, version=told["version"])
            self.made_up = tuple(told["made_up"])
        if told := self.ask_peer("first"):
            self.peer = evolve(self.peer, threads=told["threads"], runtimes=tuple(told["runtimes"]))
            self.fingerprints[0] = told["fingerprint"]
        if told := self.ask_ours("load"):
            self.fingerprints[1] = told["fingerprint"]
            self.made_up = tuple(told["made_up"])
        if told := self.ask_ours("make"):
            notes = tuple(told["notes"])
            self.ours = evolve(self.ours, way=told["way"], threads=told["threads"], notes=notes)
        self._refuse_what_nobody_runs()

    def _refuse_what_nobody_runs(self) -> None:
        """Eager torch is what a module means: where it raises, and ours does too, the inputs don't fit.

        Raises:
            ArgumentError: so it is.
        """
        failed = self.peer.problem and self.ours.problem and not (self.peer.crashed or self.ours.crashed)
        if self.subject.kind == "torch" and self.peer.version and failed:
            raise ArgumentError(
                f"{self.subject.text} can't be called with its inputs: {self.peer.problem}; give others by `inputs`, "
                "--shape or --inputs"
            )

    def look(self) -> None:
        """What each runs."""
        if told := self.ask_peer("trace"):
            self.groups, self.order = told.get("groups", ()), told.get("order", ())
            self.peer = evolve(
                self.peer,
                calls=tuple(told["calls"]),
                onednn=told["onednn"],
                isa=told["isa"],
                notes=tuple(told["notes"]),
            )
        if told := self.ask_ours("profile"):
            steps, partitions = tuple(told["steps"]), told["partitions"]
            self.ours = evolve(self.ours, ops=tuple(told["ops"]), steps=steps, partitions=partitions)

    def time(self) -> None:
        """The whole model, in turns, so that what disturbs one disturbs the other."""
        share = self.options.seconds / (2 * ROUNDS)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS if self.options.seconds else 0):
            times[0].extend(self.ask_peer("time", seconds=share) or ())
            times[1].extend(self.ask_ours("time", seconds=share) or ())
        self.peer = evolve(self.peer, timed=timed(times[0]))
        self.ours = evolve(self.ours, timed=timed(times[1]))

    def check(self) -> None:
        """Results against double precision. Its problems are no problems of the model."""
        if self.subject.kind == "torch":
            told = self._asked(self.peer_worker, "check", bool(self.peer.problem), seconds=CHECKED)
            if told is None:
                return
            self._checked(told)
            if self.fingerprints[0] != self.fingerprints[1]:
                note = (
                    "the model has other weights or inputs each time it is made: our results are not compared"
                )
                self.ours = evolve(self.ours, notes=(*self.ours.notes, note))
                return
            file = self.peer_worker.folder / "expected.npz"
        else:
            told = self._asked(self.our_worker, "expect", bool(self.ours.problem))
            if told is None:
                return
            file = Path(told["file"])
            checked = self._asked(
                self.peer_worker, "check", bool(self.peer.problem), seconds=CHECKED, expected=str(file)
            )
            if checked is not None:
                self._checked(checked)
        if file.is_file():
            told = self._asked(self.our_worker, "check", bool(self.ours.problem), expected=str(file))
            if told is not None:
                self.ours = evolve(self.ours, error=told["error"], against="double precision")

    def _checked(self, told: dict[str, Any]) -> None:
        self.peer = evolve(
            self.peer,
            departures=tuple(told["departures"]),
            unchecked=told["unchecked"],
            whole=told["whole"],
        )

    def _asked(self, worker: Worker, stage: str, hopeless: bool, **values: Any) -> Any:
        if hopeless:
            return None
        answer = worker.ask(stage, self.options.limit, **values)
        if answer is None and worker.mishap is not None:
            self.peer = evolve(self.peer, unchecked=worker.mishap.text)
        return answer


def _refuse(mishap: Mishap) -> None:
    """What the user gave makes no sense."""
    if mishap.usage:
        raise ArgumentError(mishap.text)


def examine(subject: Subject, options: Options, checks: Callable[[Case], Sequence[Finding]]) -> Examined:
    """Runs a subject on both sides, and judges it.

    Args:
        subject: what the user has named.
        options: how.
        checks: what is looked for.

    Raises:
        ArgumentError: the subject, its inputs or an option makes no sense.
    """
    shapes_of(options.shapes)
    if not options.seconds >= 0 or not options.limit > 0:
        raise ArgumentError(
            f"--seconds must be 0 or more and --limit above 0, got {options.seconds:g} and {options.limit:g}"
        )
    found = machine()
    task = subject.task(
        inputs=options.inputs and str(Path(options.inputs).resolve()),
        shapes=list(options.shapes),
        seed=options.seed,
        threads=options.threads,
    )
    environment = dict(os.environ)
    if options.threads is not None:
        environment["OMP_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory(prefix="onednn-graph-") as name:
        folder = Path(name)
        with (
            Worker(subject.kind, folder / "peer", task, environment) as peer,
            Worker("ours", folder / "ours", task, environment) as ours,
        ):
            sides = _Sides(subject, options, peer, ours)
            sides.load()
            sides.look()
            sides.time()
            sides.check()
    case = Case(
        subject=subject,
        machine=found,
        peer=sides.peer,
        ours=sides.ours,
        layers=layers(sides.peer.calls, sides.ours.steps, sides.groups, sides.ours.ops, sides.order),
        made_up=sides.made_up,
        asked=options.threads,
    )
    return Examined(case=case, findings=tuple(checks(case)))
