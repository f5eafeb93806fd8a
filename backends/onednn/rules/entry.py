"""Rules about implementations of the library: what each says, and what it is asked of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

from attrs import frozen

from ..library.descriptors import Descriptor
from ..library.enumerators import Query
from ..library.loading import Version
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveAttributes, PrimitiveDesc

What = ParamSpec("What")


@frozen
class Entry(Generic[What]):
    """One rule of a table.

    Attributes:
        implementation: beginning of the library's implementation name.
        condition: in words.
        applies: the condition: on problem and primitive data type of a weight gradient, on the `Case` of another
            primitive.
        seen: what happened.
        since: first version of the library that is known for it. What later versions do wrong is not held against
            those before, where the fuzzers have covered these.
        fixed: first version that is proven to be free of it; None where none is, so that it holds for all that come.
    """

    implementation: str
    condition: str
    applies: Callable[What, bool]
    seen: str
    since: Version = (3, 2)
    fixed: Version | None = None

    def holds(self, version: Version) -> bool:
        """Whether a version of the library does it, as far as anybody knows."""
        return self.since <= version and (self.fixed is None or version < self.fixed)


@frozen(eq=False)
class Case:
    """A primitive as one implementation would run it.

    Attributes:
        desc: it, on that implementation.
        descriptor: what it was made of.
    """

    desc: PrimitiveDesc
    descriptor: Descriptor

    @property
    def attributes(self) -> PrimitiveAttributes:
        """Its post-ops, scales and zero points."""
        return self.descriptor.attributes

    def layout(self, what: Query) -> MemoryDesc:
        """The layout of one argument as the implementation takes it."""
        return self.desc.memory_desc(what)
