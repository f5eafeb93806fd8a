"""Lowering: from the ops of a partition to the steps of a plan.

    request ─► Edges                 who makes and who reads each tensor
                 │
    walk.py ──► Lowering ──► function of the op's family
                 ├ Tensors           where things lie, and how to get them in another layout
                 ├ Emitter           what runs: steps, copies
                 ├ Chooser           which implementation is taken
                 └ Notes             what is done, and why something was not
                 │
    finishing.py ─► outputs in the user's arrays, what depends on constants alone apart

A lowering function is given a `Lowering`, whose parts these are: it reads where its inputs lie, describes a primitive,
adds it as a step, and says where its result lies. What it tries and can't do is an attempt: all four parts go back to
where they were.

Layouts flow from primitive to primitive; a copy is made only where the next one asks for it. An op takes along, as
post-ops, what follows it (`links.py`), as much of that as the library accepts. What it has no primitive for is a step
on the host, so that a partition always becomes one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.errors import LibraryError
from ....ops.records import frozen
from ..library.enumerators import Arg, FpmathMode, Query
from ..library.memory import OpaqueLayout
from ..library.primitive import NativeEngine, PrimitiveDesc
from ..plan.chooser import NO_LIMITS, Chooser, Limits
from ..plan.emitter import Emitter
from ..plan.journal import Journal
from ..plan.layouts import Layouts
from ..plan.measured import fastest
from ..plan.preference import preferred
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .edges import Edges
from .links import Link
from .notes import Notes
from .ports import place_ports
from .tensors import Tensors, unknown_to_library
from .way import Way

Lower = Callable[["Lowering", Op, Sequence[Link]], None]
"""From an op, and what it takes along, to steps. Raises Unfit."""


@frozen
class Lowered:
    """How ops of one kind are lowered.

    Attributes:
        lower: the function.
        why_not: the reason that no primitive can do an op, as far as its shapes and types tell, or None.
        takes_empty: whether there is something to do where a tensor has no elements.
        channels_last: whether it has a way of its own for images that lie so, which is tried first.
    """

    lower: Lower
    why_not: Callable[[Op], str | None] = lambda op: None
    takes_empty: bool = False
    channels_last: bool = False


def why_not(table: Mapping[str, Lowered], op: Op) -> str | None:
    """Why no primitive can do the op, as far as its types and known shapes tell, or None."""
    lowered = table.get(op.kind)
    if lowered is None:
        return f"no lowering of {op.kind}"
    for port, tensor in (
        *zip(op.input_ports, op.inputs, strict=True),
        *zip(op.output_ports, op.outputs, strict=True),
    ):
        if port.shape_operand:
            continue
        unknown = unknown_to_library(tensor, port.name)
        if unknown is not None:
            return lowered.why_not(op) or unknown
        if tensor.shape is not None and 0 in tensor.shape and not lowered.takes_empty:
            return f"nothing is computed: '{port.name}' has no elements"
    return lowered.why_not(op)


class Lowering:
    """The plan of one partition in the making.

    Args:
        engine: the library's engine.
        request: what is compiled.
        opaque: layouts of inputs that lie as another partition left them, by tensor id.
        limits: what is not to be done.

    Attributes:
        edges: who makes and who reads the tensors.
        layouts: makes descriptors, and buffers that lie so.
        tensors: where things lie.
        emitter: what runs.
        chooser: which implementation and which candidate is taken.
        notes: what is done, and why something was not.
    """

    def __init__(
        self,
        engine: NativeEngine,
        request: CompileRequest,
        opaque: Mapping[int, OpaqueLayout] | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.engine = engine
        self.request = request
        self._journal = journal = Journal()
        self.edges = Edges(request)
        self.layouts = Layouts(engine.lib)
        fpmath, wanted = FpmathMode[request.fpmath_mode], fastest(request.options) or preferred
        self.chooser = Chooser(engine, limits, fpmath, wanted, journal)
        self.emitter = Emitter(self.layouts, self.chooser, journal)
        self.tensors = Tensors(self.edges, self.layouts, self.emitter, journal)
        self.notes = Notes(journal)
        place_ports(request, opaque or {}, self.layouts, self.tensors, self.emitter, self.notes)

    @property
    def fuses(self) -> bool:
        """Whether primitives take along what follows their op."""
        return self.chooser.limits.fuses

    def single(
        self,
        role: str,
        desc: PrimitiveDesc,
        arguments: Sequence[tuple[int, Buffer]],
        result: LogicalTensor,
        order: Sequence[int] | None = None,
        output: int = Arg.DST,
        query: Query = Query.dst_md,
    ) -> None:
        """Adds a primitive of one output, which makes `result`."""
        made = Buffer(desc.memory_desc(query).canonical(channels_last=order is not None))
        self.emitter.run(role, desc, (*arguments, (output, made)))
        self.tensors.produce(result, made, order)

    @contextmanager
    def trying(self, way: Way) -> Generator[None]:
        """Within it, ops are tried in one way."""
        before = self.tensors.way, self.chooser.references
        self.tensors.way, self.chooser.references = way, way.references
        try:
            yield
        finally:
            self.tensors.way, self.chooser.references = before

    @contextmanager
    def attempt(self, way: Way) -> Generator[None]:
        """Something is tried in one way; where it comes to nothing, nothing is left of it in any part but reasons.

        Raises:
            Unfit, LibraryError: what ended it.
        """
        mark = self._journal.mark()
        try:
            with self.trying(way):
                yield
        except (Unfit, LibraryError):
            self._journal.go_back(mark)
            raise
