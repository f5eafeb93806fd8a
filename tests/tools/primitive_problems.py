"""Primitives as small JSON texts: what a rule's reproducer is, and what the fuzzer writes beside a finding.

    {"function": "matmul", "implementation": "brg_matmul:avx2", "isa": "AVX2",
     "tensors": {"src": {"type": "f32", "shape": [5, 8], "layout": "rows"}, "weights": …, "dst": …}}

A layout is `rows`, `last` (channels-last), `any`, a blocked one's name as `MemoryDesc.describe` has it, or strides.
Numbers have the names of the descriptor's fields; `post_ops`, `scales` and `zero_points` are those of the attributes.
`threads` is how many the library is given, `offset` how many elements data lie off a cache line, `pack` which of the
library's reorders packs weights for which the kernel wants sums. `values` says by tensor between which bounds integers
are drawn, `tolerance` and `absolute` how far results may be off, as in `Trial`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from attrs import fields
from onednn_graph.backends.onednn.library.descriptors import (
    DESCRIPTORS,
    ConvolutionForward,
    EltwiseForward,
    ResamplingForward,
)
from onednn_graph.backends.onednn.library.enumerators import (
    Algorithm,
    Arg,
    FpmathMode,
    NormalizationFlags,
    Propagation,
    Query,
)
from onednn_graph.backends.onednn.library.loading import DATA_TYPES, dims
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import (
    Decompression,
    Grouping,
    PostOp,
    PrimitiveAttributes,
    described,
)
from onednn_graph.ops.data_types import DataType as D
from primitive_formulas import BINARY, ELTWISE, FORMULAS
from trial_maker import Trial, blocked_tags

INPUTS = {
    "src": Arg.SRC,
    "src_0": Arg.SRC,
    "src_1": Arg.SRC_1,
    "weights": Arg.WEIGHTS,
    "data": Arg.SRC,
    "diff_dst": Arg.DIFF_DST,
}
OUTPUTS = {"dst": Arg.DST, "diff_src": Arg.DIFF_SRC, "diff_weights": Arg.DIFF_WEIGHTS}
ATTRIBUTES = {"src": Arg.SRC, "weights": Arg.WEIGHTS, "dst": Arg.DST}
NUMBERS = (
    "strides",
    "dilates",
    "pads_begin",
    "pads_end",
    "kernel",
    "axis",
    "groups",
    "epsilon",
    "alpha",
    "beta",
)
EXACT = {
    "eltwise_backward": 2e-4,
    "eltwise_forward": 2e-4,
    "softmax_forward": 1e-4,
    "pooling_forward": 1e-5,
    "resampling_forward": 1e-4,
    "resampling_backward": 1e-3,
}
"""How far the others may be off, which are no sums of products."""


class PrimitiveProblem:
    """One primitive of a text.

    Args:
        engine: the library's engine.
        told: the text, parsed.
    """

    def __init__(self, engine, told) -> None:
        self.engine, self.told, self.function = engine, told, told["function"]
        self.data = np.random.default_rng(told.get("seed", 0))

    # --- what is described ---

    def desc(self, tensor):
        """The descriptor of a tensor."""
        shape, kind, lib = tuple(tensor["shape"]), D(tensor["type"]), self.engine.lib
        layout = tensor["layout"]
        if layout == "any":
            return MemoryDesc.any(lib, shape, kind)
        rank = len(shape)
        if layout in ("rows", "last"):
            order = list(range(rank)) if layout == "rows" else [0, *range(2, rank), 1]
            layout, step = [0] * rank, 1
            for axis in reversed(order):
                layout[axis] = step
                step *= shape[axis]
        if not isinstance(layout, str):
            return MemoryDesc.strided(lib, shape, kind, layout)
        return in_blocks(lib, shape, kind, blocked_tags(lib, rank)[layout])

    @property
    def lib(self):
        return self.engine.lib

    @cached_property
    def tensors(self):
        return {name: self.desc(tensor) for name, tensor in self.told["tensors"].items()}

    @cached_property
    def shapes(self):
        """Shapes by what they are of, gradient or not."""
        return {name.removeprefix("diff_"): desc.shape for name, desc in self.tensors.items()}

    @property
    def ends(self):
        """What the windows read, and one element for each of them."""
        return self.shapes["src"], self.shapes["dst"]

    @cached_property
    def attributes(self):
        post = [
            PostOp(
                Algorithm[one["algorithm"]],
                one.get("alpha", 0.0),
                one.get("beta", 0.0),
                self.desc(one["operand"]) if "operand" in one else None,
            )
            for one in self.told.get("post_ops", ())
        ]
        scales = {ATTRIBUTES[side]: one["mask"] for side, one in self.told.get("scales", {}).items()}
        points = {ATTRIBUTES[side]: 0 for side in self.told.get("zero_points", ())}
        more = {"fpmath": FpmathMode[self.told.get("fpmath", "strict")]} | self._decompression
        return PrimitiveAttributes(self.engine.lib, post_ops=post, scales=scales, zero_points=points, **more)

    @property
    def _decompression(self):
        """How weights are decompressed, if they are."""
        told = self.told.get("decompression")
        if told is None:
            return {}
        scales, points = (
            Grouping(told[name]["mask"], tuple(told[name]["group"]), D(told[name]["type"]))
            if name in told
            else None
            for name in ("scales", "points")
        )
        return {"decompression": Decompression(scales, points), "fpmath": FpmathMode[told["as"]]}

    def _decompressed(self, weights, inputs):
        """What the weights stand for; the scales and zero points become inputs."""
        told = self.told.get("decompression", {})
        for name, number in (("points", Arg.ATTR_ZERO_POINTS), ("scales", Arg.ATTR_SCALES)):
            if name in told:
                array = np.array(told[name]["values"], np.float64)
                desc = self.desc({"type": told[name]["type"], "shape": array.shape, "layout": "rows"})
                inputs[number | Arg.WEIGHTS] = (desc, array)
                spread = array.repeat(weights.shape[-2] // array.shape[0], 0)
                weights = weights * spread if name == "scales" else weights - spread
        return weights

    @cached_property
    def descriptor(self):
        """What the library is asked for."""
        made, values = DESCRIPTORS[self.function], {}
        for field in fields(made):
            name = field.name
            if name in self.tensors:
                values[name] = self.tensors[name]
            elif name in NUMBERS:
                number = self.told[name]
                values[name] = tuple(number) if isinstance(number, list) else number
            elif name == "algorithm":
                values[name] = Algorithm[self.told[name]]
            elif name == "propagation":
                values[name] = Propagation.forward_inference
            elif name == "flags":
                values[name] = NormalizationFlags.none
            elif name == "attributes":
                values[name] = self.attributes
            else:  # no bias, no factors
                values[name] = self._hint() if name == "hint" else None
        return made(**values)

    def _hint(self):
        if self.function == "convolution_backward_data":
            ends = {name.removeprefix("diff_"): desc for name, desc in self.tensors.items()}
            same = {name: tuple(self.told[name]) for name in ("strides", "dilates", "pads_begin", "pads_end")}
            asked = ConvolutionForward(
                propagation=Propagation.forward_training,
                algorithm=Algorithm[self.told["algorithm"]],
                bias=None,
                attributes=PrimitiveAttributes(self.lib),
                **ends,
                **same,
            )
            return described(self.engine, asked.function, *asked.arguments(self.engine))
        if self.function == "eltwise_backward":
            asked = EltwiseForward(
                propagation=Propagation.forward_training,
                algorithm=Algorithm[self.told["algorithm"]],
                src=self.tensors["data"],
                dst=self.tensors["data"],
                alpha=self.told["alpha"],
                beta=self.told["beta"],
                attributes=PrimitiveAttributes(self.lib),
            )
            return described(self.engine, asked.function, *asked.arguments(self.engine))
        if "resampling" not in self.function:
            return None
        src, dst = (
            MemoryDesc.any(self.lib, self.shapes[end], self.tensors["diff_src"].data_type)
            if end == "dst"
            else self.desc({**self.told["tensors"]["diff_src"], "layout": "rows"})
            for end in ("src", "dst")
        )
        asked = ResamplingForward(
            propagation=Propagation.forward_inference,
            algorithm=Algorithm[self.told["algorithm"]],
            src=src,
            dst=dst,
            attributes=PrimitiveAttributes(self.lib),
        )
        return described(self.engine, asked.function, *asked.arguments(self.engine))

    # --- what it must give ---

    def values(self, name, tensor):
        low, high = self.told.get("values", {}).get(name, (0 if tensor["type"] == "u8" else -3, 4))
        made = self.data.integers(low, high, tensor["shape"]).astype(np.float64)
        return 2.0**made if name == "src_1" and self.told["algorithm"] == "binary_div" else made

    @cached_property
    def trial(self):
        """The primitive with data, and what it must give."""
        told, rank = self.told, None
        inputs, arrays = {}, {}
        for name, tensor in told["tensors"].items():
            if name in INPUTS:
                arrays[name] = self.values(name, tensor)
                where = Query[f"{name}_md"] if tensor["layout"] == "any" else self.tensors[name]
                inputs[INPUTS[name]] = (where, arrays[name])
        result = next(name for name in told["tensors"] if name in OUTPUTS)
        rank = len(told["tensors"][result]["shape"])
        points = told.get("zero_points", {})
        scales = {
            side: np.array(one["values"], np.float64).reshape(self._spread(one, side))
            for side, one in told.get("scales", {}).items()
        }
        taken = dict(arrays)
        if "src" in taken:
            taken["src"] = (taken["src"] - points.get("src", 0)) * scales.get("src", 1.0)
        if "weights" in taken:
            taken["weights"] = self._decompressed(taken["weights"], inputs)
        y = FORMULAS[self.function](self, **taken)
        if "weights" in scales:
            own = scales["weights"]
            y = y * (own.reshape(1, -1, *[1] * (rank - 2)) if "conv" in self.function else own)
        if "bias" in self.tensors:
            z = self.values("bias", told["tensors"]["bias"])
            inputs[Arg.BIAS] = (self.tensors["bias"], z)
            y = y + (z.reshape(1, -1, *[1] * (rank - 2)) if "conv" in self.function else z)
        for place, one in enumerate(told.get("post_ops", ()), 1):
            if "operand" not in one:
                y = ELTWISE[one["algorithm"]](y)
                continue
            array = self.data.integers(1, 4, one["operand"]["shape"]).astype(np.float64)
            inputs[Arg.ATTR_MULTIPLE_POST_OP_BASE * place | Arg.SRC_1] = (self.desc(one["operand"]), array)
            y = BINARY[one["algorithm"]](y, array)
        y = y / scales.get("dst", 1.0) + points.get("dst", 0)
        for kind, known, dtype in ((Arg.ATTR_SCALES, scales, D.f32), (Arg.ATTR_ZERO_POINTS, points, D.s32)):
            for side, values in known.items():
                array = np.ravel(np.asarray(values, np.float64))
                desc = MemoryDesc.strided(self.lib, array.shape, dtype, (1,))
                inputs[kind | ATTRIBUTES[side]] = (desc, array)
        where = Query[f"{result}_md"] if told["tensors"][result]["layout"] == "any" else self.tensors[result]
        arguments = list(self.descriptor.arguments(self.engine))
        return Trial(
            self.function,
            arguments,
            inputs,
            {OUTPUTS[result]: (where, y)},
            {},
            told.get("tolerance", 2.0),
            told.get("absolute", EXACT.get(self.function, 1e-4)),
            offset=told.get("offset", 0),
            pack=told.get("pack"),
        )

    def _spread(self, one, side):
        """The shape in which scales go with their tensor."""
        shape = self.told["tensors"][side]["shape"]
        return [d if one["mask"] >> axis & 1 else 1 for axis, d in enumerate(shape)]


# --- a text of what the fuzzer has drawn ----------------------------------------------------------------


def told_of(trial):
    """The text of a trial; None for what no formula is here for."""
    described, inverse = trial.descriptor, {number: name for name, number in ATTRIBUTES.items()}
    if trial.function not in FORMULAS or trial.workspace is not None:
        return None
    told = {"function": trial.function, "tensors": {}, "values": {}}
    for field in fields(type(described)):
        value = getattr(described, field.name)
        if isinstance(value, MemoryDesc):
            told["tensors"][field.name] = _tensor(value)
            number = {**INPUTS, "bias": Arg.BIAS}.get(field.name)
            if number in trial.inputs:
                array = trial.inputs[number][1]
                told["values"][field.name] = [int(array.min()), int(array.max()) + 1]
        elif field.name in NUMBERS:
            told[field.name] = list(value) if isinstance(value, tuple) else value
        elif field.name == "algorithm":
            told[field.name] = value.name
    attributes = described.attributes
    post = [
        {"algorithm": one.algorithm.name, "alpha": one.alpha, "beta": one.beta}
        if one.operand is None
        else {"algorithm": one.algorithm.name, "operand": _tensor(one.operand)}
        for one in attributes.post_ops
    ]
    scales = {
        inverse[number]: {"mask": mask, "values": trial.inputs[Arg.ATTR_SCALES | number][1].tolist()}
        for number, mask in attributes.scales.items()
    }
    points = {
        inverse[number]: int(trial.inputs[Arg.ATTR_ZERO_POINTS | number][1][0])
        for number in attributes.zero_points
    }
    grouped = _grouped(attributes, trial)
    parts = (
        ("post_ops", post),
        ("scales", scales),
        ("zero_points", points),
        ("decompression", grouped),
        ("fpmath", "" if grouped or not attributes.fpmath else attributes.fpmath.name),
    )
    return told | {name: kept for name, kept in parts if kept}


def _grouped(attributes, trial):
    """How weights are decompressed: by name the mask, the group, and the numbers as they lie in memory."""
    how = attributes.decompression
    if how is None:
        return {}
    told = {"as": attributes.fpmath.name}
    for name, one, number in (
        ("scales", how.scales, Arg.ATTR_SCALES),
        ("points", how.points, Arg.ATTR_ZERO_POINTS),
    ):
        if one is not None:
            values = trial.inputs[number | Arg.WEIGHTS][1]
            told[name] = {
                "mask": one.mask,
                "group": list(one.group),
                "type": one.data_type.value,
                "values": values.tolist(),
            }
    return told


def in_blocks(lib, shape, kind, number):
    """A tensor in the blocked layout of that number."""
    new = lib.new(
        "dnnl_memory_desc_create_with_tag", len(shape), dims(tuple(shape)), DATA_TYPES[kind], number
    )
    return MemoryDesc(lib, new)


def _tensor(desc):
    layout = list(desc.strides) if desc.strides else desc.describe()
    if desc.blocks:  # axes of one element may stand elsewhere in the name
        named = blocked_tags(desc.lib, len(desc.shape)).items()
        same = (
            name for name, number in named if in_blocks(desc.lib, desc.shape, desc.data_type, number) == desc
        )
        layout = next(same)
    return {"type": desc.data_type.value, "shape": list(desc.shape), "layout": layout}
