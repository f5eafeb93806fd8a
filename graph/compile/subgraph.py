"""Subgraph: ops that run as one unit, what they read and make, and who has claimed them."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.logical_tensor import PropertyType
from ..runtime.arrays import Array, in_seven_bits
from ..runtime.cached import cached
from ..runtime.parameter import Parameter
from .partitioner import Claim
from .partitioning import Partitioning

NO_PARAMETERS: Mapping[int, Parameter] = {}
NO_ARRAYS: Mapping[int, Array] = {}


class Subgraph:
    """What a `Partition` is, whose attributes it has, and all that what was compiled from it keeps of it."""

    def __init__(
        self,
        id: int,  # noqa: A002 -- oneDNN Graph's name
        claim: Claim,
        needed: set[int],
        *,
        partitioning: Partitioning,
        fpmath_mode: str,
        forced: bool,
        constants: Mapping[int, Array],
        steady: Mapping[int, Parameter] = NO_PARAMETERS,
        in_place: Mapping[int, Array] = NO_ARRAYS,
        parts: tuple[Subgraph, ...] = (),
    ) -> None:
        self.id = id
        self.ops = claim.ops
        self.backend = claim.backend.name if claim.backend is not None else None
        self.why_not: Mapping[str, str] = dict(claim.why_not)
        self.partitioning = partitioning
        self.fpmath_mode = fpmath_mode
        self.engine_kind = "cpu"
        self.parts = parts or (self,)
        self.forced = forced
        produced = {t.id: t for op in self.ops for t in op.outputs}
        read = {t.id: t for op in self.ops for t in op.inputs}
        self.input_ports = tuple(t for t in read.values() if t.id not in produced)
        self.output_ports = tuple(t for t in produced.values() if t.id in needed)
        self.constants = {t.id: constants[t.id] for t in self.input_ports if t.id in constants}
        self.steady = {t.id: steady[t.id] for t in self.input_ports if t.id in steady}
        self.in_place = dict(in_place)
        self._shape_operands = {
            tensor.id: str(op)
            for op in self.ops
            for port, tensor in zip(op.input_ports, op.inputs, strict=True)
            if port.shape_operand and tensor.id not in produced
        }

    @property
    def is_supported(self) -> bool:
        """Whether some backend runs it."""
        return self.backend is not None

    @property
    def label(self) -> str:
        """The kinds of its ops, for tables: `Convolution+BiasAdd+ReLU`."""
        return "+".join(op.kind for op in self.ops)

    @property
    def shape_operands(self) -> tuple[int, ...]:
        """Ids of the input ports whose values decide shapes."""
        return tuple(self._shape_operands)

    @cached
    def narrow(self) -> frozenset[int]:
        """Ids of the constants that take 7 of their 8 bits; what is given in their place must, too.

        Parameters are none: others may be set at any time.
        """
        return frozenset(
            t.id
            for t in self.input_ports
            if t.property_type is PropertyType.constant
            and t.id in self.constants
            and in_seven_bits(self.constants[t.id])
        )

    @property
    def new_outputs(self) -> frozenset[int]:
        """Ids of the output ports but for those that are memory of parameters."""
        return frozenset(t.id for t in self.output_ports) - self.in_place.keys()

    def version(self) -> int:
        """Grows when one of the steady parameters changes."""
        return sum(parameter.version for parameter in self.steady.values())
