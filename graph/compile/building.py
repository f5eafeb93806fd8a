"""Building: from a request to the first executable that may run, and why it is this one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from attrs import evolve

from ...ops.errors import LibraryError, UnsupportedError
from ...ops.records import frozen
from ..runtime.executable import Executable, Explanation, Generated, InTurns
from ..trust.doubts import Doubts
from ..trust.settings import Verifying, verifying
from .backend import Backend, CompileRequest

LOGGER = logging.getLogger(__name__)


@frozen
class Built:
    """An executable, and what came before it.

    Attributes:
        passed_over: reasons.
        verified: whether it was checked on integer data, now: what runs for verdicts of before was not.
        exactly: whether it had to make the same numbers there.
    """

    executable: Executable
    passed_over: tuple[str, ...]
    verified: bool
    exactly: bool

    @property
    def explanation(self) -> Explanation:
        """The executable's as it stands now, with everything that was passed over before it."""
        told = self.executable.explanation
        rejected = (*self.passed_over, *told.rejected)
        return evolve(told, rejected=rejected, verified=self.verified, exactly=self.exactly)


@frozen
class RequestPart:
    """One of the partitions that a request joins.

    Attributes:
        ops: ids of its ops.
        build: compiles it alone, on plain tensors.
    """

    ops: frozenset[int]
    build: Callable[[], Built]


def build(
    request: CompileRequest,
    backends: Sequence[Backend],
    *,
    asked: bool,
    parts: Sequence[RequestPart],
) -> Built:
    """The first executable of the first backend that can, verified where it is not trusted or the user wants it so.

    Args:
        request: what is compiled.
        backends: in the order in which they are asked.
        asked: whether the first has claimed these very ops, and so need not be asked again.
        parts: partitions that the request joins, where there are several. Where one of them has effects, and so can't
            be tried, these are verified one by one.

    Raises:
        UnsupportedError: no backend can run it; the message has each one's reason.
        ArgumentError: the environment says of verification what means nothing.
    """
    unverified = verifying() is Verifying.off
    pure = all(op.schema.pure for op in request.ops)
    reasons: list[str] = []
    for backend in backends:
        known = asked and backend is backends[0]
        reason = None if known else backend.unavailable() or backend.why_not(request.ops)
        if reason is not None:
            reasons.append(f"{backend.name}: {reason}")
            continue
        failures: list[str] = []
        try:
            for attempt, executable in enumerate(backend.compile(request)):
                explanation = executable.explanation
                every = request.options.verify
                doubts = Doubts.about(explanation, afresh=every)
                if doubts.against is not None:
                    # Under the name of its op it is told of the partition that has the op, and of no other.
                    accused = next((f"{op}: " for op in request.ops if op.id == doubts.accused), "")
                    failures.append(f"{accused}{doubts.against}")
                    continue
                must_verify = every or not (unverified or _settled(executable, doubts))
                wrong = None
                if must_verify and not pure and not parts:
                    must_verify = False  # nothing must happen before the first execution
                    wrong = None if explanation.trusted else "what has effects can't be tried"
                elif must_verify and not pure:
                    wrong = _wrong_in_parts(executable, parts, every=every)
                elif must_verify:
                    from .trying import wrong_in_some_turn  # the judge; where all is proven nobody needs it

                    wrong = wrong_in_some_turn(request, backend, attempt, executable)
                lacks = _not_generated(executable) if wrong is None else None
                if lacks is not None:
                    failures.append(f"{explanation.strategy} has no code, {lacks}")
                    continue
                if wrong is None:
                    exactly = all(op.schema.exact_on_integers for op in request.ops)
                    built = Built(executable, (*reasons, *failures), must_verify, exactly)
                    first = request.ops[0]
                    LOGGER.debug("compiled %d ops from %s on: %s", len(request.ops), first, built.explanation)
                    return built
                failures.append(f"{explanation.strategy} failed verification, {wrong}")
            reasons.append(f"{backend.name}: no kernel is left ({'; '.join(failures)})")
        except UnsupportedError as error:
            reasons += [f"{backend.name}: {failure}" for failure in failures]
            reasons.append(f"{backend.name}: {error}")
    forced, way = "", ""
    if request.forced:
        forced = f"backend '{backends[0].name}' was forced; "
        way = "; leave backend out to let another one do it"
    raise UnsupportedError(f"{request.ops[0]}: {forced}no backend can run it ({'; '.join(reasons)}){way}")


def _settled(executable: Executable, doubts: Doubts) -> bool:
    """Whether an executable may run for what is known of its kernels, whichever way it goes."""
    if executable.explanation.trusted or not doubts.settled or not isinstance(executable, InTurns):
        return doubts.settled
    return all(Doubts.about(one.explanation, afresh=False).settled for one in executable.turns())


def _not_generated(executable: Executable) -> str | None:
    """Why the code of an executable can't be generated, or None."""
    if isinstance(executable, Generated):
        try:
            executable.generate()
        except LibraryError as error:
            return str(error)
    return None


def _wrong_in_parts(executable: Executable, parts: Sequence[RequestPart], *, every: bool) -> str | None:
    """What is wrong with the kernels of an executable where its parts run by themselves, or None.

    Args:
        every: whether all parts are verified; else those with kernels that are not proven.
    """
    whole = executable.explanation
    doubts = {step.implementation for step in whole.steps if not step.proven}
    for part in parts:
        mine = [step for step in whole.steps if step.op in part.ops]
        if not every and all(step.proven for step in mine):
            continue
        alone = part.build().explanation
        if alone.backend != whole.backend and not all(step.host for step in mine):
            return "; ".join(alone.rejected)
        doubts -= {step.implementation for step in alone.steps}
    return f"nobody has proven {', '.join(sorted(doubts))}" if doubts else None
