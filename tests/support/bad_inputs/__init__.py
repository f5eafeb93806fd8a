"""What the tables of bad inputs share: a row, how it is judged, and a small valid problem to spoil."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onednn_graph as og
from onednn_graph import LogicalTensor

BUILT_IN = (ValueError, TypeError, RuntimeError, NotImplementedError, MemoryError)
LONGEST = 600

CONV = "ConvolutionBackwardWeights"
TRANSPOSED = "ConvTransposeBackwardWeights"
FILTERS = "ConvolutionBackpropFilters"
LEGACY_FILTERS = {
    "weights_shape": "filter_shape",
    "weights_format": "filter_format",
    "src": "input_forward",
    "diff_dst": "output_delta",
    "diff_weights": "filter_delta",
}
# Written out here, so that a name lost from the registry is seen.
KINDS = {
    CONV: {},
    "ConvolutionBackpropWeights": {},
    FILTERS: LEGACY_FILTERS,
    TRANSPOSED: {},
    "ConvTransposeBackpropFilters": LEGACY_FILTERS,
}
DROP = object()
"""In place of an attribute's value: leave it out."""

SRC = (2, 4, 5, 5)
DST = {False: (2, 6, 3, 3), True: (2, 6, 7, 7)}
WEIGHTS = {False: (6, 4, 3, 3), True: (4, 6, 3, 3)}


@dataclass(frozen=True)
class Row:
    """One bad input.

    Attributes:
        what: the mistake, for the test's name.
        run: makes it.
        error: the very class that it must raise.
        says: what the message must have: op, attribute or port, rule, value.
    """

    what: str
    run: Callable[[], object]
    error: type[og.OneDNNGraphError]
    says: tuple[str, ...]


def check(row: Row) -> str:
    """Runs the row; returns the message after every check."""
    try:
        result = row.run()
    except Exception as error:
        caught = error
    else:
        raise AssertionError(f"{row.what}: no error, but {result!r}")
    message = str(caught)
    problems = [f"does not say {text!r}" for text in row.says if text not in message]
    if type(caught) is not row.error:
        problems.append(f"is a {type(caught).__name__} instead of a {row.error.__name__}")
    if not isinstance(caught, og.OneDNNGraphError) or not isinstance(caught, BUILT_IN):
        problems.append("is no class of the package and a built-in one")
    problems += bad_style(message)
    if problems:
        raise AssertionError(f"{row.what}: {'; '.join(problems)}: {message}") from caught
    return message


def bad_style(message: str) -> list[str]:
    """What keeps a message from being one readable sentence."""
    problems: list[str] = []
    if not 20 <= len(message) <= LONGEST:
        problems.append(f"has {len(message)} characters")
    if "\n" in message:
        problems.append("has a line break")
    if message[-1:] in " .,:;(" or "  " in message or "Traceback" in message:
        problems.append("is no clean sentence")
    if "…" not in message and message.count("(") != message.count(")"):
        problems.append("has unbalanced parentheses")
    return problems


# --- a valid problem ---------------------------------------------------------------------------------


def spell(kind, name):
    """The kind's word for an attribute or port."""
    return KINDS[kind].get(name, name)


def transposed(kind):
    return kind.startswith("ConvTranspose")


def attributes(kind=CONV, **changes):
    """Valid attributes with changes, both under the new names; under the kind's names in the result."""
    values = {
        "strides": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        "groups": 1,
        "auto_pad": "None",
        "data_format": "NCX",
        "weights_format": "IOX" if transposed(kind) else "OIX",
        "weights_shape": list(WEIGHTS[transposed(kind)]),
    }
    if transposed(kind):
        values["output_padding"] = [0, 0]
    values.update(changes)
    return {spell(kind, name): value for name, value in values.items() if value is not DROP}


def tensors(kind=CONV, data_type="f32", src=SRC, dst=None, **more):
    """Logical tensors 0 and 1 for the inputs."""
    dst = DST[transposed(kind)] if dst is None else dst
    return [LogicalTensor(0, data_type, src, **more), LogicalTensor(1, data_type, dst)]


def make_op(kind=CONV, inputs=None, outputs=None, op_id=0, name="", **changes):
    """An Op, valid but for the changes."""
    inputs = tensors(kind) if inputs is None else inputs
    outputs = [LogicalTensor(9, "f32")] if outputs is None else outputs
    return og.Op(op_id, kind, inputs, outputs, name=name, **attributes(kind, **changes))


def arrays(kind=CONV, dtype=np.float32):
    """Arrays for the inputs."""
    return [np.ones(SRC, dtype), np.ones(DST[transposed(kind)], dtype)]


def result_array(kind=CONV, dtype=np.float32):
    """An array for the output."""
    return np.zeros(WEIGHTS[transposed(kind)], dtype)


def eager(
    kind=CONV, src=None, dst=None, weights_shape=None, *, out=None, backend=None, engine=None, **changes
):
    """The eager function of a kind, valid but for what is given."""
    given = arrays(kind)
    return og.run_op(
        kind,
        (given[0] if src is None else src, given[1] if dst is None else dst, weights_shape),
        attributes(kind, **changes),
        out=out,
        backend=backend,
        engine=engine,
    )


def graph_of(*ops):
    """A graph of ops, not finalized."""
    graph = og.Graph()
    for op in ops:
        graph.add_op(op)
    return graph


def partition(kind=CONV, backend=None, **changes):
    """The one partition of an op."""
    graph = graph_of(make_op(kind, **changes))
    graph.finalize()
    return graph.get_partitions(backend=backend)[0]


def built(kind=CONV):
    """A graph made with the builder, its inputs, and the op's output `dw`."""
    graph = og.Graph()
    inputs = [
        graph.input("x", "f32", SRC),
        graph.input("dy", "f32", DST[transposed(kind)]),
    ]
    return graph, *inputs, graph.op(kind, *inputs, **attributes(kind), name="dw")


def closed_engine():
    engine = og.Engine()
    engine.close()
    return engine


def finalized(*ops):
    graph = graph_of(*(ops or [make_op()]))
    graph.finalize()
    return graph


# --- a valid op of one's own ---------------------------------------------------------------------------

T = {"T": ["f32"]}
PORT = (og.extend.Port("src", "T"),)


def schema(**changes):
    fields = {
        "kind": "Spoiled",
        "summary": "",
        "inputs": PORT,
        "outputs": (og.extend.Port("dst", "T"),),
        "infer_shapes": og.extend.shape_of_first_input,
        "types": T,
    }
    return og.extend.OpSchema(**{**fields, **changes})


def nothing(op, inputs, outputs):
    """A kernel."""
