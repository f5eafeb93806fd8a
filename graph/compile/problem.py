"""Problems: what a backend is asked to compile, and the plan that is to come of it, as a text.

Another process makes the same plan of it, and can say whether it computes what it should. The text is JSON for people
too: what was asked, and behind it the ops as a file in oneDNN Graph's format has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import evolve

from ...ops.errors import GraphFileError, OneDNNGraphError
from ...ops.records import frozen
from ..io.document import Document, Interface, OutputRecord
from ..io.document_reader import Place, document_at, parsed
from ..io.document_writer import dumps as dumps_document
from ..io.serialization import inputs_of, ops_of, record_of, records_of
from ..model.logical_tensor import LayoutType, as_plain
from ..runtime.engine import Engine
from ..runtime.executable import Explanation
from ..runtime.threads import asked_threads
from .backend import CompileRequest
from .options import CompileOptions
from .trials import Choices

VERSION = 1
"""Of the format; raised when older texts mean something else."""
UNTOLD = ("choices", "backend", "policy", "kept_shapes")
"""Options that a text has elsewhere, or that are spent when a backend is asked."""


@frozen(kw_only=True)
class Problem:
    """One executable that a backend makes of a request.

    Attributes:
        request: without opaque inputs, and of tensors that are all known.
        backend: name of who makes it.
        attempt: how many others it has made of the request before.
        turn: which of its ways it goes; 0 where it has but one.
        plan: what it runs, as `plan_of` tells.
        threads: what `set_num_threads` was given.
    """

    request: CompileRequest
    backend: str
    attempt: int
    turn: int
    plan: Mapping[str, Any]
    threads: int | None


def plan_of(explanation: Explanation) -> dict[str, Any]:
    """What an executable runs, by which it is known again."""
    return {
        "strategy": explanation.strategy,
        "threads": explanation.threads,
        "steps": [
            " ".join([step.name, step.layout, step.change, "once" if step.prepared else ""]).rstrip()
            for step in explanation.steps
        ]
        or list(explanation.implementations),
    }


def problem_of(
    request: CompileRequest, backend: str, attempt: int, turn: int, explanation: Explanation
) -> Problem:
    """The problem of an executable that a backend has made; opaque inputs are taken as plain ones."""
    return Problem(
        request=evolve(request, described=request.inputs, version=None),
        backend=backend,
        attempt=attempt,
        turn=turn,
        plan=plan_of(explanation),
        threads=asked_threads(),
    )


def dumps(problem: Problem) -> str:
    """The problem as text.

    Raises:
        GraphFileError: something of it has no place in a text: a name that JSON does not hold, an op that speaks to
            other processes, an output that its op describes in another way.
    """
    request = problem.request
    tensors = {t.id: t for op in request.ops for t in (*op.inputs, *op.outputs)}
    for tensor in (*request.inputs, *request.outputs, *tensors.values()):
        if tensor.layout_type is LayoutType.opaque:
            raise GraphFileError(
                f"{tensor} is opaque, and its layout belongs to this process; describe it as strided"
            )
    for tensor in request.outputs:
        if tensor != tensors[tensor.id]:
            raise GraphFileError(f"{tensor} must be an output as its op describes it, {tensors[tensor.id]}")
    options = request.options
    asked = {
        "problem": VERSION,
        "backend": problem.backend,
        "attempt": problem.attempt,
        "turn": problem.turn,
        "forced": request.forced,
        "threads": problem.threads,
        "engine": {"machine_code": request.engine.machine_code, "threads": request.engine.threads},
        "options": {name: value for name, value in options.again().items() if name not in UNTOLD},
        "choices": {"fixed": options.choices.fixed, "settled": options.choices.settled},
        "narrow": sorted(request.narrow),
        "for_sizes": options.shared.for_sizes,
        "values": {str(number): list(sizes) for number, sizes in request.values.items()},
        "plan": dict(problem.plan),
    }
    names = {t.id: t.name for t in (*tensors.values(), *request.inputs) if t.name}
    document = Document(
        fpmath_mode=request.fpmath_mode,
        ops=records_of(request.ops),
        input_ports=tuple(t.id for t in request.inputs),
        output_ports=tuple(t.id for t in request.outputs),
        interface=Interface(
            names=names,
            inputs=tuple(map(record_of, request.inputs)),
            outputs=tuple(OutputRecord(t.id) for t in request.outputs),
        ),
        source="<problem>",
    )
    head = json.dumps(asked, indent=1, ensure_ascii=False)
    return f'{head[:-2]},\n "graph": {dumps_document(document)}}}\n'


def loads(text: str, source: str = "<problem>") -> Problem:
    """The problem that a text tells.

    Raises:
        GraphFileError: no problem, or one of another version.
        OneDNNGraphError: ops or options that are none here.
    """
    try:
        told = cast("dict[str, Any]", parsed(text, source))
        if told["problem"] != VERSION:
            raise GraphFileError(f"{source}: must be a problem of version {VERSION}, got {told['problem']}")
        document = document_at(Place(source).key("graph"), told["graph"])
        ops = ops_of(document)
        tensors = {t.id: t for op in ops for t in op.outputs}
        settled = {str(name): str(way) for name, way in told["choices"]["settled"].items()}
        inputs = inputs_of(document)
        choices = Choices(settled, fixed=bool(told["choices"]["fixed"]))
        options = CompileOptions(**told["options"], choices=choices)
        options.shared.for_sizes = bool(told.get("for_sizes"))
        request = CompileRequest(
            ops=ops,
            inputs=tuple(map(as_plain, inputs)),
            outputs=tuple(tensors[number] for number in document.output_ports or ()),
            engine=Engine(machine_code=told["engine"]["machine_code"], threads=told["engine"]["threads"]),
            fpmath_mode=document.fpmath_mode,
            values={int(number): tuple(map(int, sizes)) for number, sizes in told["values"].items()},
            forced=bool(told["forced"]),
            options=options,
            described=inputs,
            narrow=frozenset(map(int, told.get("narrow", ()))),
        )
        return Problem(
            request=request,
            backend=str(told["backend"]),
            attempt=int(told["attempt"]),
            turn=int(told["turn"]),
            plan=dict(told["plan"]),
            threads=told["threads"],
        )
    except OneDNNGraphError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise GraphFileError(
            f"{source}: must be a problem as this version writes it, but: {error!r}"
        ) from error
