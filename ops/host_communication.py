"""The host family, continued: sums and means over the processes that train one model together.

`HostMeanWeight` marks in the graph of one process what is another number in several. All others name the communicator
that they speak through by a number, which the process gives to each that it has. A graph with such an op belongs to its
process therefore: it runs nowhere else, and can't be saved.
"""

from __future__ import annotations

from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType
from .data_types import DataType
from .registry import HOST, REGISTRY
from .schema import BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape, shape_of_first_input
from .shared import FLOATS, integers

COMMUNICATOR = AttributeSpec(
    "communicator",
    AttributeType.s64,
    required=True,
    rule=NON_NEGATIVE,
    doc="Number of the communicator in this process.",
)
BUCKET = AttributeSpec(
    "bucket",
    AttributeType.s64,
    required=True,
    rule=NON_NEGATIVE,
    doc="Number of the bucket, as the communicator gave it.",
)
PIECE = AttributeSpec(
    "piece",
    AttributeType.s64,
    required=True,
    rule=NON_NEGATIVE,
    doc="Which of the bucket's pieces, in the order in which they lie.",
)
SOURCE = "an op of our own, for training in several processes"
TOKEN = (DataType.f32,)


def _start(ctx: InferenceContext) -> tuple[Shape, ...]:
    if len(ctx.inputs) > 1 and ctx.inputs[1] not in (None, (1,), (-1,)):
        raise ctx.error(f"'after' must be a token, of shape [1], got {format_shape(ctx.inputs[1])}")
    return ((1,),)


def _end(ctx: InferenceContext) -> tuple[Shape, ...]:
    return (tuple(ctx.attributes.integers("shape")),)


REGISTRY.register(
    OpSchema(
        kind="HostMeanStart",
        summary="Puts a tensor in its place of a bucket; once all have theirs, the mean over the processes begins.",
        formula="token = 0; bucket[piece] = src",
        inputs=(
            Port("src", "T", doc="Any shape."),
            Port("after", "TT", required=False, doc="Token of an op that must run before."),
        ),
        outputs=(Port("token", "TT", doc="Shape [1]; says that the op has run."),),
        attributes=(COMMUNICATOR, BUCKET, PIECE),
        types={"T": FLOATS, "TT": TOKEN},
        infer_shapes=_start,
        source=SOURCE,
        family=HOST,
        pure=False,
        soon=True,
    )
)
REGISTRY.register(
    OpSchema(
        kind="HostMeanEnd",
        summary="Waits for the mean of a bucket over the processes, and takes one tensor out of it.",
        formula="dst = Σ_r bucket_r[piece] / number of processes",
        inputs=(Port("token", "TT", doc="Token of an op that must run before."),),
        outputs=(Port("dst", "T", doc="The shape of the attribute."),),
        attributes=(COMMUNICATOR, BUCKET, PIECE, integers("shape", NON_NEGATIVE, "Shape of dst.")),
        types={"TT": TOKEN, "T": FLOATS},
        infer_shapes=_end,
        source=SOURCE,
        family=HOST,
        pure=False,
    )
)
REGISTRY.register(
    OpSchema(
        kind="HostRankSum",
        summary="Sum of a tensor over the processes; all wait for each other.",
        formula="dst = Σ_r src_r",
        inputs=(Port("src", "T", doc="Any shape, the same in each process."),),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=(COMMUNICATOR,),
        types={"T": (DataType.f32, DataType.f64)},
        infer_shapes=shape_of_first_input,
        backward=(BackwardOp(kind="HostRankSum", inputs=("diff_dst",), outputs=("src",)),),
        source=SOURCE,
        family=HOST,
        pure=False,
    )
)
REGISTRY.register(
    OpSchema(
        kind="HostMeanWeight",
        summary="What the sum of a weighted mean is divided by: the sum of the weights. Several processes that train "
        "one model put HostRankWeight in its place.",
        formula="dst = src",
        inputs=(Port("src", "T", doc="Any shape."),),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        types={"T": FLOATS},
        infer_shapes=shape_of_first_input,
        source=SOURCE,
        family=HOST,
    )
)
REGISTRY.register(
    OpSchema(
        kind="HostRankWeight",
        summary="What each process divides its sum by, so that the mean of the quotients, in which a process counts by "
        "the length of its batch, is the weighted mean of what all have; all wait for each other.",
        formula="dst = Σ_r src_r · length / Σ_r length_r",
        inputs=(Port("src", "T", doc="Any shape, the same in each process."),),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=(COMMUNICATOR,),
        types={"T": FLOATS},
        infer_shapes=shape_of_first_input,
        source=SOURCE,
        family=HOST,
        pure=False,
    )
)
