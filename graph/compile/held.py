"""What a graph holds, for those who run it: constants, parameters, and what is assigned to these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile

from ...ops.records import frozen
from ..model.op import Op
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter


@frozen(eq=False)
class Held:
    """What a graph holds.

    Attributes:
        arrays: memory of constants and parameters, by tensor id.
        parameters: by tensor id.
        assigned: parameter → the tensor whose value it has once a run is over.
    """

    arrays: Mapping[int, Array]
    parameters: Mapping[int, Parameter]
    assigned: Mapping[int, int]


def updates(
    ops: Sequence[Op],
    outputs: Collection[int],
    assigned: Mapping[int, int],
) -> dict[int, dict[int, int]]:
    """The ops that can write parameters in their place once all others have run: op → output → parameter.

    Nobody reads what they make, so that nothing has to come after them; and no two of them read a parameter that one
    of them writes. So whoever reads a parameter, or a view of it, has done so when it changes. Ops with effects keep
    their order.

    Args:
        ops: of the whole graph.
        outputs: ids of the graph's outputs.
        assigned: parameter → value.
    """
    read = {t.id for op in ops for t in op.inputs} | {*outputs}
    targets: dict[int, list[int]] = {}
    for parameter, value in assigned.items():
        targets.setdefault(value, []).append(parameter)
    read |= {value for value, parameters in targets.items() if len(parameters) > 1}
    found: dict[int, dict[int, int]] = {}
    for op in ops:
        pairs = {
            made: parameter
            for made, parameter in _written_over(op)
            if targets.get(made) == [parameter] and made not in read
        }
        once = all([t.id for t in op.inputs].count(parameter) == 1 for parameter in pairs.values())
        if op.outputs and len(pairs) == len(op.outputs) and once:
            found[op.id] = pairs
    acting = [op.id for op in ops if not op.schema.pure]
    last = {*takewhile(found.__contains__, reversed(acting))}
    for op in set(acting) - last:  # it would come behind others with effects
        found.pop(op, None)
    readers: dict[int, int] = {}
    for op in ops:
        for number in {t.id for t in op.inputs} if op.id in found else ():
            readers[number] = readers.get(number, 0) + 1
    return {
        op: pairs
        for op, pairs in found.items()
        if all(readers[parameter] == 1 for parameter in pairs.values())
    }


def early_updates(
    ops: Sequence[Op],
    outputs: Collection[int],
    assigned: Mapping[int, int],
) -> dict[int, int]:
    """What ops can write to a parameter's memory as soon as they run, though others read it there: value → parameter.

    Such an op alone reads the parameter, so that nobody misses the old value; and the new one stays until the run is
    over. So rows of a cache are replaced where they lie, and attention reads all of it.

    Args:
        ops: of the whole graph.
        outputs: ids of the graph's outputs, which have memory of their own.
        assigned: parameter → value.
    """
    readers = Counter(t.id for op in ops for t in op.inputs)
    shared = Counter(assigned.values())
    found: dict[int, int] = {}
    for op in ops:
        for made, parameter in _written_over(op):
            if assigned.get(parameter) != made or made in outputs:
                continue
            if op.schema.pure and readers[parameter] == 1 and parameter not in outputs and shared[made] == 1:
                found[made] = parameter
    return found


def _written_over(op: Op) -> Iterator[tuple[int, int]]:
    """Ids of the outputs that may lie where an input lies, row by row as parameters do, each with that input's."""
    places = {port.name: t.id for port, t in zip(op.input_ports, op.inputs, strict=True)}
    for port, tensor in zip(op.output_ports, op.outputs, strict=True):
        over = places.get(op.schema.in_place.get(port.name, ""))
        if over is not None and tensor.strides is None:
            yield tensor.id, over
