"""Which of the library's implementations a primitive runs on, of those that the quarantine does not bar.

Every primitive but the weight gradients, whose candidates `weight_gradients/draft.py` lists, is
chosen here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from ....ops.errors import LibraryError
from ....ops.records import frozen
from ..library.descriptors import Descriptor, MatMul, Reorder, Sum
from ..library.enumerators import FpmathMode
from ..library.implementations import is_called
from ..library.memory import MemoryDesc
from ..library.primitive import (
    Decompression,
    NativeEngine,
    PostOp,
    PrimitiveAttributes,
    PrimitiveDesc,
    implementations,
)
from ..proven import is_proven
from ..quarantine import refused, unaskable
from ..rules.features import Features
from .journal import Journal, JournalledDict
from .preference import preferred
from .team import threads_of
from .unfit import NoKernel, Unfit

T = TypeVar("T")


@frozen(kw_only=True)
class Limits:
    """What a plan must not do.

    Attributes:
        fuses: whether primitives take along what follows their op.
        proven_only: whether implementations stay out that no fuzzer has covered.
        choice: which candidate an op takes that has several; the last one where there are fewer.
        choosing: ids of the ops that do so, while all others keep their first candidate; None for all.
        barred: implementations that stay out, each for one op, by its id: they were found wrong there.
    """

    fuses: bool = True
    proven_only: bool = False
    choice: int = 0
    choosing: frozenset[int] | None = None
    barred: frozenset[tuple[int, str]] = frozenset()

    def choice_of(self, op: int) -> int:
        """Which candidate an op takes, by its id."""
        return self.choice if self.choosing is None or op in self.choosing else 0


NO_LIMITS = Limits()


@frozen
class Choice:
    """What was chosen for a primitive.

    Attributes:
        desc: on an implementation that may run; None where the library has none.
        passed_over: why others were passed over.
    """

    desc: PrimitiveDesc | None
    passed_over: tuple[str, ...] = ()


class Chooser:
    """Chooses implementations, and among the candidates of an op.

    Args:
        engine: the library's engine.
        limits: what is not to be done.
        fpmath: what f32 may be multiplied as.
        wanted: the name of the implementation that should run instead of the first; `preferred` by default.
        journal: of the attempts that choose.

    Attributes:
        fpmath: what f32 may be multiplied as, in the op that is being lowered.
        references: whether the library's reference loops may run.
        op: id of the op that is being lowered; None between ops.
        choices: op → how many candidates it has.
    """

    def __init__(
        self,
        engine: NativeEngine,
        limits: Limits = NO_LIMITS,
        fpmath: FpmathMode = FpmathMode.strict,
        wanted: Callable[[Features], str | None] = preferred,
        journal: Journal | None = None,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.fpmath = self._allowed = fpmath
        self.references = False
        self.op: int | None = None
        self.choices: JournalledDict[int, int] = JournalledDict(journal or Journal())
        self._wanted = wanted

    @contextmanager
    def choosing_for(self, op: int, *, reads_f32: bool) -> Generator[None]:
        """Implementations are chosen for this op within the block; another's may be lowered meanwhile.

        Args:
            reads_f32: whether it is the user's f32 that it multiplies. The mode is for that alone: f16 that is copied
                to f32, for want of a kernel, keeps its digits.
        """
        outer = self.op, self.fpmath
        self.op, self.fpmath = op, self._allowed if reads_f32 else FpmathMode.strict
        try:
            yield
        finally:
            self.op, self.fpmath = outer

    # --- implementations -----------------------------------------------------------------------------

    def find(self, descriptor: Descriptor) -> Choice:
        """A primitive on the first implementation that may run, or on a better one that may."""
        reason = unaskable(descriptor)
        if reason is not None:
            return Choice(None, (reason,))
        lib = self.engine.lib
        with lib.using(threads_of(descriptor, lib.threads)):
            return self._find(descriptor)

    def _find(self, descriptor: Descriptor) -> Choice:
        first = descriptor.described(self.engine)
        if first is None:
            return Choice(None)
        features = Features(descriptor, first)
        better = self._wanted(features)
        if better is None and self._kept_out(features) is None:
            return Choice(first)
        passed_over: list[str] = []
        usable: PrimitiveDesc | None = None
        for desc in implementations(first):
            reason = self._kept_out(Features(descriptor, desc))
            if reason is not None:
                passed_over.append(reason)
            elif better is None or is_called(desc.implementation, better):
                return Choice(desc, tuple(passed_over))
            else:
                usable = usable or desc
        return Choice(usable, tuple(passed_over))

    def _kept_out(self, features: Features) -> str | None:
        """Why an implementation may not run, or None."""
        reason = refused(features, references=self.references)
        name = features.implementation
        if reason is None and (self.op, name) in self.limits.barred:
            return f"{name} was found wrong for this op"
        proven_only = self.limits.proven_only
        if (
            reason is None
            and proven_only
            and not is_proven(self.engine.lib, features.descriptor.swept_as, name)
        ):
            return f"no fuzzer has covered {name} of {features.function}"
        return reason

    def describe(self, descriptor: Descriptor) -> PrimitiveDesc:
        """As `find`.

        Raises:
            NoKernel: the library has none that may run.
        """
        choice = self.find(descriptor)
        if choice.desc is None:
            reasons = "; ".join(choice.passed_over)
            raise NoKernel(reasons or f"the library has no {descriptor.function} for these descriptors")
        return choice.desc

    def attributes(
        self,
        post_ops: Sequence[PostOp] = (),
        scales: Mapping[int, int] | None = None,
        zero_points: Mapping[int, int] | None = None,
        decompression: Decompression | None = None,
        fpmath: FpmathMode | None = None,
        narrow_weights: bool = False,
    ) -> PrimitiveAttributes:
        """Attributes of a primitive.

        Args:
            post_ops: in order.
            scales, zero_points: argument → mask.
            decompression: of weights.
            fpmath: what real numbers are multiplied as, if not as is allowed.
            narrow_weights: whether weights of 8 bits are known to take 7.

        Raises:
            Unfit: the library has none such.
        """
        try:
            mode = self.fpmath if fpmath is None else fpmath
            return PrimitiveAttributes(
                self.engine.lib, mode, post_ops, scales, zero_points, decompression, narrow_weights
            )
        except LibraryError as error:
            raise Unfit(str(error)) from error

    # --- small primitives ----------------------------------------------------------------------------

    def reorder(
        self,
        source: MemoryDesc,
        target: MemoryDesc,
        scales: Mapping[int, int] | None = None,
        zero_points: Mapping[int, int] | None = None,
    ) -> Choice:
        """A copy between layouts and data types, with scales as in `PrimitiveAttributes`."""
        attributes = PrimitiveAttributes(self.engine.lib, FpmathMode.strict, (), scales, zero_points)
        return self.find(Reorder(src=source, dst=target, attributes=attributes))

    def matmul(
        self, a: MemoryDesc, b: MemoryDesc, c: MemoryDesc, fpmath: FpmathMode = FpmathMode.strict
    ) -> PrimitiveDesc | None:
        """C = a · b over the last two axes, the others being batches; None where the library has none."""
        attributes = PrimitiveAttributes(self.engine.lib, fpmath)
        return self.find(MatMul(src=a, weights=b, bias=None, dst=c, attributes=attributes)).desc

    def add(
        self, terms: Sequence[MemoryDesc], total: MemoryDesc, factors: Sequence[float] | None = None
    ) -> PrimitiveDesc | None:
        """The sum of tensors of one shape, each times its factor; None where the library has none."""
        attributes = PrimitiveAttributes(self.engine.lib)
        factors = factors or [1.0] * len(terms)
        return self.find(Sum(dst=total, factors=factors, terms=terms, attributes=attributes)).desc

    # --- candidates ----------------------------------------------------------------------------------

    def choose(self, op: int, candidates: Sequence[T]) -> T:
        """The candidate whose turn it is, of those that an op, given by its id, has, best first."""
        self.choices[op] = len(candidates)
        return candidates[min(self.limits.choice_of(op), len(candidates) - 1)]

    def is_first(self, op: int) -> bool:
        """Whether it is the turn of the op's first candidate, which nothing has proved wrong."""
        return self.limits.choice_of(op) == 0
