"""What the sides of an examination hand to each other."""

from __future__ import annotations

from typing import Any

from ...ops.records import frozen
from .verbose import Primitive


@frozen(kw_only=True)
class Call:
    """One op that the peer has run.

    Attributes:
        item: what it belongs to: the path of a module, or a node of ONNX.
        op: the peer's name of it, `aten.convolution`, say.
        seconds: the shortest time.
        primitives: of oneDNN in the peer, that it ran, in order.
        inside: further ops that it called, `aten::_slow_conv2d_forward`, say.
        types, shapes: of its inputs.
        note: what else is known.
    """

    item: str
    op: str
    seconds: float
    primitives: tuple[Primitive, ...] = ()
    inside: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    note: str = ""


@frozen(kw_only=True)
class Departure:
    """How far a result is from the same op's in double precision, on the inputs that it got.

    Attributes:
        item, op: as in `Call`.
        error: largest difference over the largest element; infinite for what is not finite and should be.
        allowed: what roundings explain.
        data_type: of the result.
        largest: its largest element in double precision; None where that is not known.
    """

    item: str
    op: str
    error: float
    allowed: float
    data_type: str
    largest: float | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether roundings don't explain it."""
        return not self.error <= self.allowed


@frozen(kw_only=True)
class Timed:
    """Times of the whole model, in seconds."""

    least: float
    median: float
    runs: int


@frozen(kw_only=True)
class Peer:
    """How the model runs where it comes from.

    Attributes:
        name, version: `torch` or `onnxruntime`.
        onednn: version of the library in it; None where it has none, or has told of none.
        isa: the library's instruction set.
        threads: how many it runs on.
        runtimes: files of OpenMP libraries in its process.
        calls: what it ran, in order.
        departures: each op against double precision; None where that was not looked at.
        unchecked: why some or all were not.
        whole: largest difference of the outputs from the model's in double precision, over the largest element.
        timed: the whole model.
        problem: why there is no more; empty if all went well.
        crashed: whether a signal ended its process.
        notes: what else is to be said.
    """

    name: str
    version: str = ""
    onednn: tuple[int, ...] | None = None
    isa: str = ""
    threads: int | None = None
    runtimes: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    departures: tuple[Departure, ...] | None = None
    unchecked: str = ""
    whole: float | None = None
    timed: Timed | None = None
    problem: str = ""
    crashed: bool = False
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class OurStep:
    """One kernel of ours.

    Attributes:
        items: names of the ops that the importer has given them, all of those of its partition.
        partition: its number.
        name, implementation: of the kernel.
        seconds: the shortest time.
        host: whether NumPy runs it.
    """

    items: tuple[str, ...]
    partition: int
    name: str
    implementation: str
    seconds: float
    host: bool


@frozen(kw_only=True)
class Ours:
    """How the model runs here.

    Attributes:
        way: `from_torch`, `from_onnx` or `torch.compile`.
        ops: names of all ops, in order.
        partitions: the kinds of each partition's ops, and why others would not run it, by number.
        steps: the kernels, in order.
        threads: how many it runs on.
        error: largest difference of the outputs from double precision, over the largest element; else from the peer's.
        against: what `error` is against.
        timed: the whole model.
        problem: why there is no more; empty if all went well.
        crashed: whether a signal ended its process.
        notes: what else is to be said.
    """

    way: str
    ops: tuple[str, ...] = ()
    partitions: dict[int, str] = {}  # noqa: RUF012 -- attrs' own default
    steps: tuple[OurStep, ...] = ()
    threads: int | None = None
    error: float | None = None
    against: str = ""
    timed: Timed | None = None
    problem: str = ""
    crashed: bool = False
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Layer:
    """What belongs together on both sides.

    Attributes:
        items: of the peer, in order.
        name: for people.
        calls: of the peer.
        steps: of ours.
    """

    items: tuple[str, ...]
    name: str
    calls: tuple[Call, ...]
    steps: tuple[OurStep, ...]

    @property
    def peer_seconds(self) -> float:
        """The peer's time."""
        return sum(call.seconds for call in self.calls)

    @property
    def our_seconds(self) -> float | None:
        """Ours; None where ours has nothing of it, as of a module that was not imported."""
        return sum(step.seconds for step in self.steps) if self.steps else None


@frozen(kw_only=True)
class Finding:
    """One answer.

    Attributes:
        code: which check it is of, for scripts.
        severity: `wrong`, `slow`, `setting` or `note`.
        layers: names of those that it is about.
        what, why, do: a sentence each, without a full stop.
        gain: seconds of a run that it costs, where that is known.
    """

    code: str
    severity: str
    layers: tuple[str, ...] = ()
    what: str
    why: str = ""
    do: str = ""
    gain: float | None = None

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "layers": list(self.layers),
            "what": self.what,
            "why": self.why or None,
            "do": self.do or None,
            "gain_seconds": self.gain,
        }
