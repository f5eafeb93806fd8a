"""Problems of primitives, as `tests/tools/primitive_problems.py` describes them, as lines for oneDNN's benchdnn.

The words are those of its documentation in oneDNN 3.13; 3.2 has no `--impl`, and `--strides` for matmul alone.
"""

from __future__ import annotations

import itertools
import math

LARGEST_DRAWN = 16
"""benchdnn draws its own data. A problem whose integers are larger depends on them, and can't be told."""
DIRECTIONS = {
    "convolution_forward": ("conv", "FWD_D"),
    "convolution_backward_data": ("conv", "BWD_D"),
    "convolution_backward_weights": ("conv", "BWD_W"),
    "deconvolution_forward": ("deconv", "FWD_D"),
}
PLAIN = """
    a ab ba abc acb bac bca cab cba abcd abdc acbd acdb adbc adcb bacd bcad bcda cabd cdab cdba dabc dcab
    abcde abced abdec acbde acdeb adecb bacde bcdea cdeab cdeba decab
"""
ORDERS = frozenset(PLAIN.split())
"""Plain tags that the library has; benchdnn takes no others unless it is told to."""
POOLINGS = {
    "pooling_max": "max",
    "pooling_avg_include_padding": "avg_p",
    "pooling_avg_exclude_padding": "avg_np",
}


class UnsaidError(Exception):
    """benchdnn has no words for a problem."""


def line_of(told):
    """The command for a problem.

    Raises:
        UnsaidError: there is none, with the reason.
    """
    drawn = {
        name: bounds
        for name, bounds in told.get("values", {}).items()
        if max(map(abs, bounds)) > LARGEST_DRAWN
    }
    if drawn:
        raise UnsaidError(f"it takes certain values of {' and '.join(drawn)}")
    if told.get("offset"):
        raise UnsaidError("it takes data that don't lie at a multiple of 64 bytes")
    if "pack" in told:
        raise UnsaidError("the weights are packed by another reorder than the first that the library offers")
    function = told["function"]
    words = (_windowed if function in DIRECTIONS else WRITERS[function])(told)
    environment = [f"ONEDNN_MAX_CPU_ISA={told['isa']}"] if "isa" in told else []
    if "threads" in told:
        environment.append(f"OMP_NUM_THREADS={told['threads']}")
    driver, *knobs, problem = words
    found = [f"--impl={told['implementation']}"] if told["implementation"] else []
    return " ".join([*environment, "./benchdnn", f"--{driver}", *found, *knobs, *_attributes(told), problem])


# --- layouts --------------------------------------------------------------------------------------------


def packed(shape, order):
    """The strides of axes that lie in an order, from the slowest to the fastest, without gaps."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return strides


def tag_of(tensor):
    """The letters of a layout; None for strides that no order of axes has."""
    rank, layout = len(tensor["shape"]), tensor["layout"]
    if layout == "rows":
        return _letters(range(rank))
    if layout == "last":
        return _letters([0, *range(2, rank), 1])
    if isinstance(layout, str):
        return layout
    fitting = (
        _letters(o) for o in itertools.permutations(range(rank)) if packed(tensor["shape"], o) == layout
    )
    return next((tag for tag in fitting if tag in ORDERS), None)


def _letters(axes):
    return "".join(chr(ord("a") + axis) for axis in axes)


def _lies(tensor, name):
    """A tag.

    Raises:
        UnsaidError: it lies by strides, and the driver takes none.
    """
    tag = tag_of(tensor)
    if tag is None:
        raise UnsaidError(f"the strides of {name} are of no tag, and the driver takes no others")
    return tag


def _layouts(named):
    """The knobs of layouts: tags, and strides for those that have none.

    Args:
        named: knob of the tag → tensor, in the order in which strides are told.
    """
    tags = {knob: tag_of(tensor) for knob, tensor in named.items()}
    knobs = [f"--{knob}={tag}" for knob, tag in tags.items() if tag is not None]
    if None in tags.values():
        parts = ("" if tags[knob] else _by(tensor["layout"], "x") for knob, tensor in named.items())
        knobs.append(f"--strides={':'.join(parts)}")
    return knobs


def _by(values, between):
    return between.join(map(str, values))


# --- attributes -----------------------------------------------------------------------------------------


def _decompression(told):
    """How weights that are integers become real numbers."""
    if told is None:
        return []
    found = [f"--attr-fpmath={told['as']}:true"]
    for attribute, key in (("scales", "scales"), ("zero-points", "points")):
        if key in told:
            one = told[key]
            group = f":{_by(one['group'], 'x')}" if one["group"] else ""
            found.append(f"--attr-{attribute}=wei:{one['mask']}:{one['type']}{group}")
    return found


def _attributes(told):
    sides = {"src": "src", "weights": "wei", "dst": "dst"}
    found = []
    for attribute, key in (("scales", "scales"), ("zero-points", "zero_points")):
        parts = []
        for side, one in told.get(key, {}).items():
            mask, values = (one["mask"], one["values"]) if key == "scales" else (0, [one])
            parts.append(f"{sides[side]}:common:{values[0]}" if mask == 0 else f"{sides[side]}:{mask}")
        if parts:
            found.append(f"--attr-{attribute}={'+'.join(parts)}")
    found += _decompression(told.get("decompression"))
    if "fpmath" in told:
        found.append(f"--attr-fpmath={told['fpmath']}")
    post = [_post_op(one) for one in told.get("post_ops", ())]
    return [*found, f"--attr-post-ops={'+'.join(post)}"] if post else found


def _post_op(one):
    name = one["algorithm"].removeprefix("binary_").removeprefix("eltwise_")
    if "operand" not in one:
        return _by([name, *(one[part] for part in ("alpha", "beta") if part in one)], ":")
    operand = one["operand"]
    mask = sum(1 << axis for axis, size in enumerate(operand["shape"]) if size > 1)
    several = mask.bit_count() > 1
    named = {0: "common", 2: "per_oc"}.get(mask, mask)
    return _by([name, operand["type"], named, *([_lies(operand, "an operand")] if several else [])], ":")


# --- drivers --------------------------------------------------------------------------------------------


def _windowed(told):
    """A convolution, transposed or not, or a gradient of it."""
    driver, direction = DIRECTIONS[told["function"]]
    ends = {name.removeprefix("diff_"): tensor for name, tensor in told["tensors"].items()}
    src, weights, dst = (ends[name] for name in ("src", "weights", "dst"))
    spatial = len(src["shape"]) - 2
    groups = weights["shape"][0] if len(weights["shape"]) > spatial + 2 else 1
    kernel = weights["shape"][-spatial:]
    layouts = {"stag": src, "wtag": weights, "dtag": dst}
    types = _by([one["type"] for one in (src, weights, dst)], ":")
    sizes = {"i": src["shape"][2:], "o": dst["shape"][2:], "k": kernel, "s": told["strides"]}
    sizes |= {"p": told["pads_begin"], "d": told["dilates"]}
    parts = [f"g{groups}" if len(weights["shape"]) > spatial + 2 else "", f"mb{src['shape'][0]}"]
    parts[-1] += f"ic{src['shape'][1]}oc{dst['shape'][1]}"
    return [
        driver,
        f"--dir={direction}",
        f"--dt={types}",
        *_layouts(layouts),
        "".join([*parts, _places(sizes)]),
    ]


def _places(sizes):
    """Numbers for each spatial axis, under the names that descriptors have: `_ih8oh4kh1sh2ph0dh0_iw…`."""
    count = len(next(iter(sizes.values())))
    return "".join(
        "_" + "".join(f"{what}{'dhw'[3 - count + place]}{values[place]}" for what, values in sizes.items())
        for place in range(count)
    )


def _matmul(told):
    src, weights, dst = (told["tensors"][name] for name in ("src", "weights", "dst"))
    layouts = _layouts({"stag": src, "wtag": weights, "dtag": dst})
    types = _by([one["type"] for one in (src, weights, dst)], ":")
    return ["matmul", f"--dt={types}", *layouts, _by([_by(one["shape"], "x") for one in (src, weights)], ":")]


def _binary(told):
    first, second, dst = (told["tensors"][name] for name in ("src_0", "src_1", "dst"))
    tags = [tag_of(one) for one in (first, second, dst)]
    if None in tags:
        raise UnsaidError("the strides of a tensor are of no tag")
    return [
        "binary",
        f"--alg={told['algorithm'].removeprefix('binary_').upper()}",
        f"--sdt={first['type']}:{second['type']}",
        f"--ddt={dst['type']}",
        f"--stag={tags[0]}:{tags[1]}",
        f"--dtag={tags[2]}",
        f"{_by(first['shape'], 'x')}:{_by(second['shape'], 'x')}",
    ]


def _reorder(told):
    src, dst = told["tensors"]["src"], told["tensors"]["dst"]
    layouts = _layouts({"stag": src, "dtag": dst})
    return ["reorder", f"--sdt={src['type']}", f"--ddt={dst['type']}", *layouts, _by(src["shape"], "x")]


def _same_tag(given, other):
    """One tag for both ends: the driver has one, and leaves the other end to the library.

    Raises:
        UnsaidError: they lie in two ways.
    """
    tag = _lies(given, "a tensor")
    if tag_of(other) not in (tag, "any"):
        raise UnsaidError("src and dst lie in two ways, and the driver has one tag for both")
    return tag


def _pooling(told):
    src, dst = told["tensors"]["src"], told["tensors"]["dst"]
    sizes = {"i": src["shape"][2:], "o": dst["shape"][2:], "k": told["kernel"], "s": told["strides"]}
    sizes |= {"p": told["pads_begin"], "d": told["dilates"]}
    types, tag = f"--dt={src['type']}:{dst['type']}", f"--tag={_same_tag(src, dst)}"
    problem = f"mb{src['shape'][0]}ic{src['shape'][1]}{_places(sizes)}"
    return ["pool", "--dir=FWD_I", f"--alg={POOLINGS[told['algorithm']]}", types, tag, problem]


def _resampling(told):
    backward = told["function"].endswith("backward")
    src, dst = ((told["tensors"][f"diff_{end}" if backward else end]) for end in ("src", "dst"))
    given, other = (dst, src) if backward else (src, dst)
    return [
        "resampling",
        f"--dir={'BWD_D' if backward else 'FWD_D'}",
        f"--alg={told['algorithm'].removeprefix('resampling_')}",
        f"--sdt={src['type']}",
        f"--ddt={dst['type']}",
        f"--tag={_same_tag(given, other)}",
        f"mb{src['shape'][0]}ic{src['shape'][1]}" + _places({"i": src["shape"][2:], "o": dst["shape"][2:]}),
    ]


def _eltwise(told):
    backward = told["function"].endswith("backward")
    src, dst = (told["tensors"][name] for name in (("data", "diff_dst") if backward else ("src", "dst")))
    return [
        "eltwise",
        f"--dir={'BWD_D' if backward else 'FWD_D'}",
        f"--dt={src['type']}",
        f"--tag={_same_tag(src, dst)}",
        f"--alg={told['algorithm'].removeprefix('eltwise_')}",
        f"--alpha={told['alpha']:g}",
        f"--beta={told['beta']:g}",
        _by(src["shape"], "x"),
    ]


def _prelu(told):
    src, weights = told["tensors"]["src"], told["tensors"]["weights"]
    _same_tag(src, told["tensors"]["dst"])
    tags = f"--stag={_lies(src, 'src')}:{_lies(weights, 'weights')}"
    shapes = _by([_by(one["shape"], "x") for one in (src, weights)], ":")
    return ["prelu", "--dir=FWD_D", f"--sdt={src['type']}:{weights['type']}", tags, shapes]


def _softmax(told):
    src, dst = told["tensors"]["src"], told["tensors"]["dst"]
    algorithm = "LOGSOFTMAX" if told["algorithm"] == "softmax_log" else "SOFTMAX"
    types = [f"--sdt={src['type']}", f"--ddt={dst['type']}"]
    layouts = [f"--stag={_lies(src, 'src')}", f"--dtag={_lies(dst, 'dst')}"]
    knobs = ["--dir=FWD_I", f"--alg={algorithm}", f"--axis={told['axis']}"]
    return ["softmax", *knobs, *types, *layouts, _by(src["shape"], "x")]


def _group_normalization(told):
    src, dst = told["tensors"]["src"], told["tensors"]["dst"]
    images, channels = src["shape"][:2]
    places = _places({"i": src["shape"][2:]})
    problem = f"g{told['groups']}mb{images}ic{channels}{places}_eps{told['epsilon']}"
    tags = f"--tag={_lies(src, 'src')}:{_lies(dst, 'dst')}"
    return ["gnorm", "--dir=FWD_I", f"--dt={src['type']}:{dst['type']}", tags, problem]


WRITERS = {
    "binary": _binary,
    "eltwise_backward": _eltwise,
    "eltwise_forward": _eltwise,
    "group_normalization_forward": _group_normalization,
    "matmul": _matmul,
    "pooling_forward": _pooling,
    "prelu_forward": _prelu,
    "reorder": _reorder,
    "resampling_backward": _resampling,
    "resampling_forward": _resampling,
    "softmax_forward": _softmax,
}


def elements(told):
    """How many elements a problem has."""
    return sum(math.prod(one["shape"]) for one in told["tensors"].values())
