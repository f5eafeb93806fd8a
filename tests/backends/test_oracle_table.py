"""Hand-picked weight gradients against brute force: equal to the last bit, on both backends, in every way to ask.

All arrays hold small integers. Their sums are exact in f32 whatever the order, so a kernel has no excuse; in half
precisions the result must be the exact sum rounded once, which only accumulation in f32 or better gives.
"""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import onednn_graph as og
import pytest
from oracle import Problem, convolution, convolution_weights, pads, rounded, transposed, transposed_weights
from rows import each, every, pairwise
from strategies import BACKENDS, FUNCTIONS, WAYS, check

C = Problem
T = partial(Problem, transposed=True)

CONVOLUTIONS = {
    "plain": C(),
    "batch 1": C(batch=1),
    "batch 0": C(batch=0),
    "batch 7": C(batch=7, size=(4, 3), kernel=(2, 2)),
    "one element of everything": C(batch=1, channels=(1, 1), size=(1, 1), kernel=(1, 1)),
    "one channel in": C(channels=(1, 5)),
    "one channel out": C(channels=(5, 1)),
    "17 and 19 channels": C(batch=1, channels=(17, 19), size=(4, 3), kernel=(2, 2)),
    "16 and 32 channels": C(batch=1, channels=(16, 32), size=(3, 3), kernel=(2, 2)),
    # kernels
    "1x1": C(kernel=(1, 1)),
    "1x1, 16 channels": C(batch=1, channels=(16, 16), size=(3, 4), kernel=(1, 1)),
    "1x1, stride 2, 5 channels": C(channels=(5, 6), size=(7, 6), kernel=(1, 1), strides=(2, 2)),
    "1x1, stride 2, 8 channels": C(batch=1, channels=(8, 3), size=(9, 8), kernel=(1, 1), strides=(2, 2)),
    "1x1 with pads": C(kernel=(1, 1), begin=(1, 2), end=(2, 0), size=(3, 4)),
    "3x3 with pads of 1": C(kernel=(3, 3), begin=(1, 1), end=(1, 1)),
    "1x5 and 5x1 mixed": C(kernel=(1, 5), begin=(0, 2), end=(0, 2)),
    "kernel as large as src": C(kernel=(6, 5)),
    "kernel larger than src, with pads": C(size=(4, 3), kernel=(7, 6), begin=(2, 2), end=(2, 3)),
    "kernel much larger than src": C(size=(1, 2), kernel=(5, 6), begin=(2, 3), end=(3, 3), batch=1),
    # pads
    "pads at the beginning": C(begin=(2, 1), end=(0, 0)),
    "pads at the end": C(begin=(0, 0), end=(1, 2)),
    "pads asymmetric": C(kernel=(3, 3), begin=(2, 0), end=(0, 1)),
    "pads as large as the kernel": C(kernel=(2, 3), begin=(2, 3), end=(2, 3), size=(3, 3)),
    "pads larger than the kernel": C(kernel=(2, 2), begin=(3, 3), end=(2, 4)),
    "pads larger than src": C(size=(2, 2), kernel=(2, 2), begin=(5, 4), end=(3, 6), batch=1),
    "pads with strides": C(begin=(1, 0), end=(2, 3), strides=(2, 3), size=(7, 6)),
    "pads of zeros": C(begin=(0, 0), end=(0, 0)),
    "pads at one side only, the other list empty": C(begin=(2, 1), end=()),
    # strides
    "stride 2": C(size=(7, 6), kernel=(3, 2), strides=(2, 2)),
    "stride in one axis": C(size=(7, 6), strides=(1, 3)),
    "stride larger than the kernel": C(size=(10, 8), kernel=(2, 1), strides=(4, 3)),
    "stride larger than src": C(size=(3, 4), kernel=(2, 2), strides=(5, 9)),
    "stride equal to the kernel": C(size=(6, 6), kernel=(3, 2), strides=(3, 2)),
    "slack of 2 and 1": C(size=(10, 8), kernel=(2, 3), strides=(3, 2)),
    "slack that only pads reach": C(size=(6, 7), kernel=(3, 2), strides=(2, 3), begin=(1, 0), end=(1, 3)),
    # dilations
    "dilated": C(size=(8, 9), dilations=(2, 3)),
    "dilated with asymmetric pads": C(size=(6, 7), dilations=(2, 3), begin=(3, 0), end=(0, 2)),
    "dilated and strided": C(size=(9, 9), kernel=(2, 3), dilations=(3, 2), strides=(2, 2)),
    "dilated, strided, padded, with slack": C(
        size=(9, 8), kernel=(3, 2), dilations=(2, 3), strides=(3, 2), begin=(2, 1), end=(1, 1)
    ),
    "dilation beyond src, only one tap inside": C(
        size=(3, 3), kernel=(3, 3), dilations=(4, 5), begin=(4, 5), end=(4, 5), batch=1
    ),
    "dilation of a kernel of 1": C(kernel=(1, 2), dilations=(7, 1)),
    "dilation equal to the stride": C(size=(9, 8), dilations=(2, 2), strides=(2, 2)),
    # groups
    "groups of 1": C(groups=1),
    "2 groups": C(groups=2, channels=(4, 6)),
    "5 groups": C(groups=5, channels=(10, 15), size=(4, 4)),
    "groups with one channel out each": C(groups=3, channels=(6, 3)),
    "2 groups of 16 channels": C(groups=2, channels=(32, 32), size=(2, 2), kernel=(2, 1), batch=1),
    "groups, strided, dilated, padded": C(
        groups=2, channels=(6, 4), size=(8, 7), strides=(2, 1), dilations=(1, 2), begin=(1, 0), end=(0, 2)
    ),
    "groups, 1x1": C(groups=4, channels=(8, 4), kernel=(1, 1)),
    "depthwise": C(groups=6, channels=(6, 6), kernel=(3, 3), begin=(1, 1), end=(1, 1)),
    "depthwise, 1x1": C(groups=5, channels=(5, 5), kernel=(1, 1)),
    "depthwise, strided": C(groups=4, channels=(4, 4), size=(7, 7), strides=(2, 2)),
    "depthwise, dilated": C(
        groups=3, channels=(3, 3), size=(7, 8), dilations=(2, 3), begin=(1, 0), end=(0, 2)
    ),
    "depthwise, 16 channels": C(groups=16, channels=(16, 16), kernel=(3, 3), begin=(1, 1), end=(1, 1)),
    "depthwise, kernel of 7": C(groups=3, channels=(3, 3), kernel=(7, 5), begin=(3, 2), end=(3, 2), batch=1),
    "depth multiplier 2": C(groups=3, channels=(3, 6)),
    "depth multiplier 3, strided": C(groups=2, channels=(2, 6), strides=(2, 1), size=(7, 5)),
    # auto_pad
    "auto_pad None": C(auto_pad="None", begin=(1, 0), end=(0, 1)),
    "auto_pad none": C(auto_pad="none", begin=(1, 0), end=(0, 1)),
    "auto_pad NONE": C(auto_pad="NONE", begin=(1, 0), end=(0, 1)),
    "auto_pad VALID": C(auto_pad="VALID"),
    "auto_pad valid over pads": C(auto_pad="valid", begin=(1, 1), end=(1, 1)),
    "auto_pad SAME_UPPER": C(auto_pad="SAME_UPPER", kernel=(4, 2)),
    "auto_pad SAME_LOWER": C(auto_pad="SAME_LOWER", kernel=(4, 2)),
    "auto_pad same_upper over pads": C(auto_pad="same_upper", kernel=(4, 2), begin=(5, 5), end=(4, 4)),
    "auto_pad same_lower over pads": C(auto_pad="same_lower", kernel=(4, 2), begin=(5, 5), end=(4, 4)),
    "auto_pad Same_Upper, strides divide": C(auto_pad="Same_Upper", strides=(3, 2), size=(6, 4)),
    "auto_pad Same_Lower, strides divide": C(auto_pad="Same_Lower", strides=(3, 2), size=(6, 4)),
    "auto_pad SAME_UPPER, strides don't divide": C(auto_pad="SAME_UPPER", strides=(3, 2), size=(7, 5)),
    "auto_pad SAME_LOWER, strides don't divide": C(auto_pad="SAME_LOWER", strides=(4, 3), size=(7, 5)),
    "auto_pad sAmE_uPpEr, dilated": C(auto_pad="sAmE_uPpEr", dilations=(2, 3), strides=(2, 1), size=(7, 8)),
    "auto_pad SAME_LOWER, dilated, strides don't divide": C(
        auto_pad="SAME_LOWER", kernel=(2, 4), dilations=(3, 1), strides=(2, 3), size=(7, 8)
    ),
    "auto_pad SAME_UPPER, kernel below the stride": C(
        auto_pad="SAME_UPPER", kernel=(1, 2), strides=(3, 4), size=(8, 9)
    ),
    "auto_pad SAME_LOWER, kernel larger than src": C(auto_pad="SAME_LOWER", kernel=(6, 4), size=(2, 3)),
    "auto_pad SAME_UPPER, depthwise": C(auto_pad="SAME_UPPER", groups=3, channels=(3, 3), strides=(2, 2)),
    # other ranks
    "1-D": C(size=(11,), kernel=(4,), strides=(2,), begin=(1,), end=(2,)),
    "1-D, kernel of 1": C(size=(7,), kernel=(1,)),
    "1-D, causal": C(size=(12,), kernel=(2,), dilations=(4,), begin=(4,), end=(0,)),
    "1-D, one channel": C(size=(20,), kernel=(5,), channels=(1, 1), strides=(3,), begin=(2,), end=(2,)),
    "1-D, groups": C(size=(9,), kernel=(3,), groups=3, channels=(6, 3)),
    "1-D, depthwise": C(size=(9,), kernel=(3,), groups=4, channels=(4, 4), begin=(1,), end=(1,)),
    "1-D, kernel larger than src": C(size=(3,), kernel=(6,), begin=(2,), end=(3,)),
    "1-D, slack": C(size=(12,), kernel=(2,), strides=(5,)),
    "1-D, SAME_LOWER, strides don't divide": C(size=(10,), kernel=(4,), strides=(3,), auto_pad="SAME_LOWER"),
    "3-D": C(size=(4, 3, 5), kernel=(2, 2, 3), begin=(1, 0, 1), end=(0, 1, 1), batch=1),
    "3-D, 1x1x1": C(size=(3, 2, 4), kernel=(1, 1, 1)),
    "3-D, strided with slack": C(size=(5, 4, 6), kernel=(2, 2, 2), strides=(2, 1, 3), batch=1),
    "3-D, dilated": C(size=(5, 3, 6), kernel=(3, 2, 2), dilations=(2, 1, 3), batch=1),
    "3-D, groups": C(size=(3, 3, 3), kernel=(2, 1, 2), groups=2, channels=(4, 2), batch=1),
    "3-D, depthwise": C(size=(3, 4, 4), kernel=(2, 3, 2), groups=3, channels=(3, 3), batch=1),
    "3-D, kernel larger than src": C(
        size=(2, 2, 3), kernel=(3, 3, 3), begin=(1, 1, 1), end=(1, 1, 1), strides=(1, 2, 1), batch=1
    ),
    "3-D, SAME_UPPER, strides don't divide": C(
        size=(3, 4, 5), kernel=(2, 3, 2), strides=(2, 3, 2), auto_pad="SAME_UPPER", batch=1
    ),
    # where kernels of the library are known to fail: these must not be the ones that run
    "rows wider than 28, stride, many zeros behind": C(
        batch=1, channels=(2, 2), size=(1, 56), kernel=(1, 10), strides=(1, 2), begin=(0, 0), end=(0, 14)
    ),
    "rows wider than 28, dilated height, few channels a group": C(
        batch=1, groups=2, channels=(4, 4), size=(4, 30), kernel=(2, 1), dilations=(2, 1)
    ),
    "rows wider than 28, dilated height, 17 channels": C(
        batch=1, channels=(17, 1), size=(3, 30), kernel=(2, 1), dilations=(2, 1)
    ),
    "two output positions, strided": C(batch=1, channels=(3, 16), size=(5, 5), kernel=(3, 3), strides=(1, 2)),
    "3-D, src smaller than kernel and stride": C(
        batch=1,
        channels=(2, 16),
        size=(2, 2, 2),
        kernel=(3, 2, 2),
        strides=(2, 1, 2),
        begin=(1, 1, 0),
        end=(1, 0, 1),
    ),
}

TRANSPOSED = {
    "transposed": T(),
    "transposed, batch 1": T(batch=1),
    "transposed, batch 0": T(batch=0),
    "transposed, one element of everything": T(batch=1, channels=(1, 1), size=(1, 1), kernel=(1, 1)),
    "transposed, more channels in than out": T(channels=(5, 2)),
    "transposed, 17 and 16 channels": T(
        batch=1, channels=(17, 16), size=(2, 3), kernel=(2, 2), strides=(2, 1)
    ),
    "transposed, 1x1": T(kernel=(1, 1)),
    "transposed, 1x1, stride 2": T(kernel=(1, 1), strides=(2, 2), size=(4, 3), channels=(4, 5)),
    "transposed, kernel larger than src": T(size=(1, 2), kernel=(4, 5), strides=(2, 1)),
    # strides, pads, dilations
    "transposed, stride 2": T(strides=(2, 2), size=(4, 3), kernel=(4, 4), begin=(1, 1), end=(1, 1)),
    "transposed, pads asymmetric": T(strides=(2, 3), size=(4, 3), begin=(1, 0), end=(0, 1)),
    "transposed, stride larger than the kernel": T(strides=(4, 3), size=(3, 4), kernel=(2, 1)),
    "transposed, stride equal to the kernel": T(strides=(3, 2), size=(3, 4)),
    "transposed, pads larger than the kernel": T(
        kernel=(2, 2), strides=(2, 2), begin=(3, 2), end=(2, 3), size=(5, 5)
    ),
    "transposed, whole rows of src fall into the pads": T(
        kernel=(2, 2), strides=(3, 3), begin=(4, 3), end=(3, 5), size=(4, 5)
    ),
    "transposed, pads at the end only": T(begin=(), end=(2, 1)),
    "transposed, dilated": T(dilations=(2, 3), size=(4, 4), begin=(1, 1), end=(1, 1)),
    "transposed, dilated and strided": T(
        dilations=(3, 2), strides=(2, 3), size=(3, 3), begin=(2, 0), end=(1, 1)
    ),
    "transposed, dilation of a kernel of 1": T(kernel=(1, 3), dilations=(5, 1), size=(3, 4)),
    # output padding
    "transposed, output padding": T(strides=(2, 2), output_padding=(1, 1), size=(3, 4)),
    "transposed, output padding of zeros": T(strides=(2, 2), output_padding=(0, 0), size=(3, 4)),
    "transposed, output padding in one axis": T(strides=(3, 2), output_padding=(2, 0), size=(3, 4)),
    "transposed, output padding implied": T(strides=(3, 2), implied=(2, 1), size=(3, 4)),
    "transposed, output padding implied, with pads": T(
        strides=(3, 2), implied=(1, 1), size=(3, 4), begin=(1, 2), end=(2, 0), kernel=(4, 3)
    ),
    "transposed, output padding above the stride": T(strides=(1, 2), output_padding=(2, 5), size=(4, 3)),
    "transposed, output padding with pads, dilated": T(
        strides=(2, 3), output_padding=(1, 2), dilations=(2, 1), begin=(1, 1), end=(2, 0), size=(3, 3)
    ),
    # groups, in both layouts
    **{
        f"transposed, {name}, {'documented' if documented else 'library'} layout": replace(
            problem, documented=documented
        )
        for documented in (True, False)
        for name, problem in {
            "2 groups": T(groups=2, channels=(4, 6)),
            "3 groups, more channels in than out": T(groups=3, channels=(9, 6), size=(4, 4)),
            "groups, strided": T(
                groups=2, channels=(6, 4), strides=(2, 3), size=(3, 3), begin=(1, 0), end=(0, 1)
            ),
            "groups with one channel out each": T(groups=3, channels=(6, 3), size=(4, 4)),
            "groups with one channel in each": T(groups=2, channels=(2, 6), size=(4, 4)),
            "groups, 1x1": T(groups=4, channels=(4, 8), kernel=(1, 1), strides=(2, 1)),
            "groups, output padding": T(
                groups=2, channels=(4, 2), strides=(2, 2), output_padding=(1, 0), size=(3, 3)
            ),
            "groups, SAME_UPPER": T(
                groups=2, channels=(4, 2), strides=(2, 2), auto_pad="SAME_UPPER", size=(3, 4)
            ),
            "depthwise": T(groups=3, channels=(3, 3)),
            "depthwise, strided": T(groups=4, channels=(4, 4), strides=(2, 2), kernel=(4, 4), size=(3, 4)),
            "1-D, groups": T(groups=2, channels=(4, 6), size=(5,), kernel=(3,), strides=(2,)),
            "3-D, groups": T(
                groups=2, channels=(2, 4), size=(2, 2, 3), kernel=(2, 2, 1), strides=(1, 2, 2), batch=1
            ),
        }.items()
    },
    # auto_pad
    "transposed, auto_pad None": T(auto_pad="None", begin=(1, 0), end=(0, 1)),
    "transposed, auto_pad none": T(auto_pad="none", begin=(1, 0), end=(0, 1)),
    "transposed, VALID over pads": T(auto_pad="VALID", begin=(1, 1), end=(1, 1), size=(3, 3)),
    "transposed, Valid": T(auto_pad="Valid", strides=(2, 2), size=(3, 3)),
    "transposed, SAME_UPPER": T(auto_pad="SAME_UPPER", kernel=(4, 3)),
    "transposed, SAME_LOWER": T(auto_pad="SAME_LOWER", kernel=(4, 3)),
    "transposed, same_upper over pads": T(
        auto_pad="same_upper", strides=(2, 2), kernel=(5, 3), begin=(4, 4), end=(3, 3), size=(4, 3)
    ),
    "transposed, same_lower over pads": T(
        auto_pad="same_lower", strides=(2, 2), kernel=(5, 3), begin=(4, 4), end=(3, 3), size=(4, 3)
    ),
    "transposed, Same_Upper, src not divisible": T(
        auto_pad="Same_Upper", strides=(2, 3), kernel=(4, 4), size=(5, 4)
    ),
    "transposed, Same_Lower, src not divisible": T(
        auto_pad="Same_Lower", strides=(2, 3), kernel=(4, 4), size=(5, 4)
    ),
    "transposed, SAME_UPPER, dst not divisible": T(
        auto_pad="SAME_UPPER", strides=(2, 3), kernel=(3, 4), size=(3, 4), implied=(1, 2)
    ),
    "transposed, SAME_LOWER, dst not divisible": T(
        auto_pad="SAME_LOWER", strides=(2, 3), kernel=(3, 4), size=(3, 4), implied=(1, 1)
    ),
    "transposed, SAME_UPPER, output padding": T(
        auto_pad="SAME_UPPER", strides=(2, 3), kernel=(3, 6), size=(3, 4), output_padding=(1, 2)
    ),
    "transposed, SAME_UPPER, kernel below the stride": T(
        auto_pad="SAME_UPPER", strides=(4, 3), size=(3, 2), kernel=(3, 2)
    ),
    "transposed, SAME_LOWER, kernel below the stride, dst as src times stride": T(
        auto_pad="SAME_LOWER", strides=(4, 3), size=(3, 2), kernel=(3, 2), implied=(1, 1)
    ),
    "transposed, SAME_LOWER, dilated": T(
        auto_pad="SAME_LOWER", strides=(2, 3), dilations=(2, 3), size=(3, 4), kernel=(3, 3)
    ),
    # other ranks
    "transposed, 1-D": T(size=(6,), kernel=(4,), strides=(2,), begin=(1,), end=(1,)),
    "transposed, 1-D, output padding": T(size=(6,), kernel=(3,), strides=(3,), output_padding=(2,)),
    "transposed, 1-D, SAME_LOWER": T(size=(5,), kernel=(5,), strides=(2,), auto_pad="SAME_LOWER"),
    "transposed, 1-D, one channel, dilated": T(size=(9,), kernel=(3,), dilations=(3,), channels=(1, 1)),
    "transposed, 3-D": T(size=(2, 3, 2), kernel=(2, 2, 3), strides=(2, 1, 2), batch=1),
    "transposed, 3-D, pads and output padding": T(
        size=(2, 3, 2),
        kernel=(3, 2, 3),
        strides=(2, 1, 2),
        begin=(1, 0, 1),
        end=(0, 1, 1),
        output_padding=(1, 0, 1),
        batch=1,
    ),
    "transposed, 3-D, SAME_UPPER": T(
        size=(2, 3, 2), kernel=(4, 2, 3), strides=(2, 1, 2), auto_pad="SAME_UPPER", batch=1
    ),
    "transposed, 3-D, dilated": T(size=(2, 2, 3), kernel=(2, 2, 2), dilations=(2, 1, 3), batch=1),
}

TABLE = CONVOLUTIONS | TRANSPOSED
ROWS = [pytest.param(problem, id=name) for name, problem in TABLE.items()]


def formats(problem, data, weights):
    """The problem in one of its format pairs; `weights` is 'spatial first' or 'spatial last'."""
    names = ("XOI", "IOX") if problem.transposed else ("XIO", "OIX")
    return replace(
        problem, data_format=data, weights_format=names[("spatial first", "spatial last").index(weights)]
    )


# --- the table -----------------------------------------------------------------------------------------


ASKED = {
    "dtype": ["f32", "bf16", "f16"],
    "data": ["NXC", "NCX"],
    "weights": ["spatial first", "spatial last"],
    "way": ["eager", "builder"],
}
BY_DEFAULT = ["partition", "runtime shape"]
"""Ways that leave out formats, groups and auto_pad where the row does, and build the graph in oneDNN Graph's steps."""


def weights_as_asked(problem, backend, dtype, data, weights, way, *, fast=False):
    problem = replace(formats(problem, data, weights), dtype=dtype)
    check(problem, WAYS[way](problem, backend), fast=fast)


def weights_in_f64(problem, data, fast=False):
    """On NumPy. Products of 40 bits: only sums in f64 are exact."""
    problem = replace(
        formats(problem, data, "spatial first"),
        dtype="f64",
        src_values=(-(2**20), 2**20),
        dst_values=(-(2**20), 2**20),
        seed=2,
    )
    check(problem, WAYS["eager"](problem, None), fast=fast)
    check(problem, WAYS["builder"](problem, "numpy"), fast=fast)


@pytest.mark.no_cover
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TABLE)
def test_any_two_choices_meet(name, backend):
    """Of the ways to ask for a row those in which each type meets each format and so on, and others from row to row.

    Against the oracle without loops, which `test_oracles_agree` holds to the one with loops on these very rows.
    """
    problem, n = TABLE[name], list(TABLE).index(name)
    turned = {
        key: values[(n >> k) % len(values) :] + values[: (n >> k) % len(values)]
        for k, (key, values) in enumerate(ASKED.items())
    }
    ways = [way for way in pairwise(backend=["onednn", "numpy"], **turned) if way["backend"] == backend]

    @each("way", ways, ids=str)
    def in_each_way(way):
        weights_as_asked(problem, **way, fast=True)

    in_each_way()
    way = BY_DEFAULT[(n + (backend == "numpy")) % 2]
    check(problem, WAYS[way](problem, backend), fast=True)


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("problem", ROWS)
def test_all_choices_meet(problem, backend):
    @each("way", every(**ASKED), ids=str)
    def in_each_way(way):
        weights_as_asked(replace(problem, seed=int(way["dtype"] != "f32")), backend, **way)

    @each("way", BY_DEFAULT)
    def by_default(way):
        check(replace(problem, seed=3), WAYS[way](replace(problem, seed=3), backend))

    in_each_way()
    by_default()


@pytest.mark.no_cover
@each("name", TABLE)
def test_f64_on_numpy(name):
    weights_in_f64(TABLE[name], ["NXC", "NCX"][list(TABLE).index(name) % 2], fast=True)


@pytest.mark.long
@each("data", ["NXC", "NCX"])
@each("problem", ROWS)
def test_f64_on_numpy_in_both_formats(problem, data):
    weights_in_f64(problem, data)


FOUR_AXES = {
    "plain": C(size=(3, 2, 3, 2), kernel=(2, 1, 2, 2), strides=(2, 1, 1, 1)),
    "padded, dilated": C(
        size=(3, 2, 2, 3), kernel=(2, 2, 1, 2), dilations=(2, 1, 1, 2), begin=(1, 0, 0, 1), end=(0, 1, 0, 0)
    ),
    "groups": C(size=(2, 2, 3, 2), kernel=(2, 1, 2, 1), groups=2, channels=(2, 4)),
    "depthwise": C(size=(2, 2, 3, 3), kernel=(2, 1, 2, 2), groups=3, channels=(3, 3)),
    "SAME_LOWER": C(size=(3, 2, 3, 2), kernel=(2, 1, 2, 2), strides=(2, 1, 2, 1), auto_pad="SAME_LOWER"),
    "transposed": T(size=(2, 1, 2, 2), kernel=(2, 2, 1, 3), strides=(2, 1, 3, 1), begin=(1, 0, 0, 1), end=()),
    "transposed, groups, documented": T(size=(2, 1, 2, 2), kernel=(1, 2, 2, 1), groups=2, channels=(4, 2)),
    "transposed, groups, library": T(
        size=(2, 1, 2, 2), kernel=(1, 2, 2, 1), groups=2, channels=(4, 2), documented=False
    ),
    "transposed, SAME_UPPER": T(
        size=(2, 1, 2, 2), kernel=(3, 2, 1, 2), strides=(2, 1, 1, 1), auto_pad="SAME_UPPER"
    ),
}


@each("dtype", ["f32", "bf16", "f16", "f64"])
@each("data", ["NXC", "NCX"])
@each("problem", [pytest.param(p, id=name) for name, p in FOUR_AXES.items()])
def test_four_spatial_axes(problem, data, dtype):
    problem = replace(formats(problem, data, "spatial last"), batch=1, dtype=dtype)
    check(problem, WAYS["eager"](problem, None))
    check(problem, WAYS["builder"](problem, "numpy"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_four_spatial_axes_only_on_numpy(backend):
    problem = replace(FOUR_AXES["plain"], batch=1)
    if backend == "numpy":
        check(problem, WAYS["eager"](problem, backend))
    else:
        with pytest.raises(og.UnsupportedError, match="4"):
            WAYS["eager"](problem, backend)


# --- precision: what small integers alone would not show ------------------------------------------------

PRECISION = {
    # 12 to 17 significant bits: a kernel in tf32, bf16 or f16 would lose the last ones.
    "large src": C(batch=1, channels=(2, 2), size=(4, 4), kernel=(2, 2), src_values=(-40_001, 40_001)),
    "large diff_dst": C(batch=1, channels=(2, 2), size=(4, 4), kernel=(2, 2), dst_values=(-40_001, 40_001)),
    "large src, transposed": T(
        batch=1, channels=(2, 2), size=(3, 3), kernel=(2, 2), src_values=(-40_001, 40_001)
    ),
    "large src, depthwise": C(
        batch=1, groups=4, channels=(4, 4), size=(4, 4), kernel=(2, 2), src_values=(-40_001, 40_001)
    ),
    "large src, 16 channels": C(
        batch=1, channels=(16, 16), size=(3, 3), kernel=(2, 2), src_values=(-40_001, 40_001)
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("data", ["NXC", "NCX"])
@pytest.mark.parametrize("problem", [pytest.param(p, id=name) for name, p in PRECISION.items()])
def test_f32_is_not_lowered(problem, data, backend):
    problem = formats(problem, data, "spatial first")
    assert np.abs(problem.exact()).max() > 2**14
    check(problem, WAYS["eager"](problem, backend))
    check(problem, WAYS["builder"](problem, backend))


LONG_SUMS = {
    # Sums of thousands, so that half precisions have to round, at ties too. A sum that is kept in the half
    # precision itself gets stuck: 256 + 1 is 256 in bf16, and 2048 + 1 is 2048 in f16.
    "convolution": C(batch=2, channels=(3, 2), size=(21, 22), kernel=(2, 1)),
    "convolution of many images": C(batch=40, channels=(2, 2), size=(4, 5), kernel=(1, 2)),
    "pointwise": C(batch=3, channels=(4, 3), size=(16, 15), kernel=(1, 1)),
    "groups": C(batch=2, groups=2, channels=(4, 4), size=(21, 22), kernel=(1, 2)),
    "depthwise": C(batch=2, groups=3, channels=(3, 3), size=(21, 22), kernel=(2, 2)),
    "strided": C(batch=2, channels=(2, 2), size=(41, 42), kernel=(2, 1), strides=(2, 2)),
    "1-D": C(batch=2, channels=(3, 2), size=(500,), kernel=(3,)),
    "3-D": C(batch=2, channels=(2, 2), size=(8, 9, 7), kernel=(1, 2, 1)),
    "transposed": T(batch=2, channels=(2, 3), size=(21, 22), kernel=(2, 1), strides=(2, 1)),
    "transposed, groups": T(
        batch=2, groups=2, channels=(4, 4), size=(21, 22), kernel=(1, 2), documented=False
    ),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("backend", BACKENDS)
@each("data", ["NXC", "NCX"])
@each("dtype", ["f32", "bf16", "f16"])
@each("problem", [pytest.param(p, id=name) for name, p in LONG_SUMS.items()])
def test_long_sums_are_rounded_once(problem, dtype, data, backend):
    problem = replace(
        formats(problem, data, "spatial first"), dtype=dtype, src_values=(1, 4), dst_values=(1, 3)
    )
    exact = problem.exact(fast=True)
    assert exact.min() > 2048
    if dtype != "f32":
        assert (rounded(exact, dtype).astype(np.float64) != exact).any()
    check(problem, WAYS["eager"](problem, backend), fast=True)
    check(problem, WAYS["builder"](problem, backend), fast=True)


# --- the shape of the weights as an input ---------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_shapes_value_wins_over_a_plausible_attribute(backend):
    """With slack, kernels of 2 and of 3 both fit the same src and diff_dst."""
    wide = C(size=(7, 9), kernel=(3, 3), strides=(2, 3))
    narrow = replace(wide, kernel=(2, 2))
    assert wide.out == narrow.out
    arrays = wide.arrays()
    tensors = [
        og.LogicalTensor(i, "f32", a.shape, name=name)
        for i, (name, a) in enumerate(zip("xy", arrays, strict=True))
    ]
    shape = og.LogicalTensor(2, "s32", [4], name="shape")
    dw = og.LogicalTensor(3, "f32", name="dw")
    graph = og.Graph()
    graph.add_op(
        og.Op(0, wide.kind, [*tensors, shape], [dw], weights_shape=wide.weights_shape, **wide.attributes)
    )
    model = graph.compile(backend=backend)
    for problem in (narrow, wide, narrow):  # one compiled graph, a value at a time
        value = np.array(problem.weights_shape, np.int32)
        check(problem, model({"x": arrays[0], "y": arrays[1], "shape": value})["dw"])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("problem", [TABLE["2 groups"], TABLE["transposed, pads asymmetric"]], ids=["C", "T"])
def test_the_shape_as_an_input_of_the_builder(problem, backend):
    src, diff_dst = problem.arrays()
    graph = og.Graph()
    x, dy = graph.input("x", "f32", src.shape), graph.input("dy", "f32", diff_dst.shape)
    graph.op(problem.kind, x, dy, graph.input("shape", "s32", [4]), name="dw", **problem.attributes)
    model = graph.compile(backend=backend)
    value = np.array(problem.weights_shape, np.int32)
    check(problem, model({"x": src, "dy": diff_dst, "shape": value})["dw"])


@pytest.mark.parametrize("weights", ["spatial first", "spatial last"])
@pytest.mark.parametrize("data", ["NXC", "NCX"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_shapes_value_chooses_the_grouped_layout(backend, data, weights):
    documented = formats(T(groups=2, channels=(4, 6), strides=(2, 1)), data, weights)
    library = replace(documented, documented=False)
    assert documented.weights_shape != library.weights_shape
    src, diff_dst = documented.arrays()
    tensors = [og.LogicalTensor(i, "f32", a.shape) for i, a in enumerate((src, diff_dst))]
    graph = og.Graph()
    graph.add_op(
        og.Op(
            0,
            documented.kind,
            [*tensors, og.LogicalTensor(2, "s32", [4])],
            [og.LogicalTensor(3, "f32")],
            weights_shape=documented.weights_shape,
            **documented.attributes,
        )
    )
    graph.finalize()
    compiled = graph.get_partitions(backend=backend)[0].compile()
    for problem in (library, documented, library):
        value = np.array(problem.weights_shape, np.int32)
        (dw,) = compiled.execute(None, [src, diff_dst, value])
        check(problem, dw)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("problem", [TABLE["2 groups"], TABLE["transposed, pads asymmetric"]], ids=["C", "T"])
def test_an_eager_shape_may_be_an_array(problem, backend):
    function = FUNCTIONS[problem.kind]
    for shape in (
        np.array(problem.weights_shape, np.int32),
        np.array(problem.weights_shape),
        problem.weights_shape,
    ):
        check(problem, function(*problem.arrays(), shape, backend=backend, **problem.attributes))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("problem", [TABLE["2 groups"], TABLE["transposed, pads asymmetric"]], ids=["C", "T"])
def test_sizes_known_at_execution_only(problem, backend):
    """One graph, several sizes; what is compiled for one must not serve another."""
    graph = og.Graph()
    x = graph.input("src", "f32", [-1] * 4)
    dy = graph.input("diff_dst", "f32", [-1] * 4)
    graph.op(problem.kind, x, dy, weights_shape=problem.weights_shape, name="dw", **problem.attributes)
    model = graph.compile(backend=backend)
    for batch, size in [(2, (6, 5)), (1, (6, 5)), (0, (6, 5)), (2, (5, 6)), (2, (6, 5))]:
        sized = replace(problem, batch=batch, size=size)
        src, diff_dst = sized.arrays()
        check(sized, model({"src": src, "diff_dst": diff_dst})["dw"])


# --- legacy names ---------------------------------------------------------------------------------------

FILTERS = {"weights_shape": "filter_shape", "weights_format": "filter_format"}
LEGACY = {
    "ConvolutionBackpropWeights": (og.convolution_backprop_weights, C, {}),
    "ConvolutionBackpropFilters": (og.convolution_backprop_filters, C, FILTERS),
    "ConvTransposeBackpropFilters": (og.conv_transpose_backprop_filters, T, FILTERS),
}


@pytest.mark.parametrize("backend", BACKENDS)
@each("data", ["NXC", "NCX"])
@each("weights", ["spatial first", "spatial last", None])
@each("legacy", LEGACY)
def test_legacy_kinds(legacy, weights, data, backend):
    """The old kinds with the old attribute names: eagerly, in a graph, and with the shape as an input."""
    function, make, spelled = LEGACY[legacy]
    problem = make(
        groups=2, channels=(4, 6), strides=(2, 1), size=(5, 4), auto_pad="same_upper", data_format=data
    )
    if weights is not None:
        problem = formats(problem, data, weights)
    attributes = {spelled.get(name, name): value for name, value in problem.attributes.items()}
    shape = {spelled.get("weights_shape", "weights_shape"): list(problem.weights_shape)}
    src, diff_dst = problem.arrays()
    check(problem, function(src, diff_dst, **shape, backend=backend, **attributes))

    tensors = [og.LogicalTensor(i, "f32", a.shape) for i, a in enumerate((src, diff_dst))]
    operand = og.LogicalTensor(3, "s32", [4])
    decoy = {name: [size + 1 for size in value] for name, value in shape.items()}
    value = np.array(problem.weights_shape, np.int32)
    for inputs, given, arguments in (
        (tensors, shape, [src, diff_dst]),
        ([*tensors, operand], {}, [src, diff_dst, value]),
        ([*tensors, operand], decoy, [src, diff_dst, value]),
    ):
        graph = og.Graph()
        op = graph.add_op(og.Op(0, legacy, inputs, [og.LogicalTensor(2, "f32")], **given, **attributes))
        assert op.kind == problem.kind
        graph.finalize()
        (partition,) = graph.get_partitions(backend=backend)
        check(problem, partition.compile().execute(None, arguments)[0])


# --- the oracle itself ----------------------------------------------------------------------------------


def _filled(problem, src, diff_dst):
    """dW of the problem's canonical layout on these values."""
    function = transposed_weights if problem.transposed else convolution_weights
    x = np.array(src, np.float64).reshape(problem.batch, problem.channels[0], *problem.size)
    dy = np.array(diff_dst, np.float64).reshape(problem.batch, problem.channels[1], *problem.out)
    return problem.in_weights_format(function(x, dy, problem.kernel, **problem.geometry))


ONE = {"batch": 1, "channels": (1, 1)}


def test_oracle_convolution_worked_by_hand():
    p = C(**ONE, size=(4,), kernel=(2,), weights_format="OIX")
    # k = 0: 1·1 + 10·2 + 100·3; k = 1: 1·2 + 10·3 + 100·4
    assert _filled(p, [1, 2, 3, 4], [1, 10, 100]).tolist() == [[[321, 432]]]
    p = replace(p, begin=(1,), end=(0,), strides=(2,), dilations=(2,), size=(5,))
    # src with a zero before it, 0 1 2 3 4 5, read at 0 and 2 for k = 0, at 2 and 4 for k = 1
    assert _filled(p, [1, 2, 3, 4, 5], [1, 10]).tolist() == [[[20, 42]]]


def test_oracle_transposed_convolution_worked_by_hand():
    p = T(**ONE, size=(2,), kernel=(3,), strides=(2,), weights_format="IOX")
    assert p.out == (5,)
    # x[0] = 1 lands on 0 1 2, x[1] = 10 on 2 3 4
    assert _filled(p, [1, 10], [1, 2, 3, 4, 5]).tolist() == [[[31, 42, 53]]]
    p = replace(p, begin=(1,), end=(0,), output_padding=(1,))
    assert p.out == (5,)
    # the same, one to the left; x[0] · w[0] is cut off, and the last of dst is reached by none
    assert _filled(p, [1, 10], [1, 2, 3, 4, 5]).tolist() == [[[20, 31, 42]]]


def test_oracle_groups_worked_by_hand():
    # outputs 0 and 1 see inputs 0 and 1, outputs 2 and 3 see inputs 2 and 3
    p = C(batch=1, groups=2, channels=(4, 4), size=(1,), kernel=(1,), weights_format="OIX")
    expected = [[10, 20], [100, 200], [3000, 4000], [30000, 40000]]
    assert _filled(p, [1, 2, 3, 4], [10, 100, 1000, 10000])[..., 0].tolist() == expected
    p = T(batch=1, groups=2, channels=(4, 2), size=(1,), kernel=(1,), weights_format="IOX")
    # inputs 0 and 1 make output 0, inputs 2 and 3 output 1: documented (I/g, O), library (I, O/g)
    assert _filled(p, [1, 2, 3, 4], [10, 100])[..., 0].tolist() == [[10, 300], [20, 400]]
    p = replace(p, documented=False)
    assert _filled(p, [1, 2, 3, 4], [10, 100])[..., 0].tolist() == [[10], [20], [300], [400]]


@pytest.mark.parametrize(
    ("mode", "size", "kernel", "stride", "dilation", "transposed", "expected"),
    [
        # in 5, stride 2 → out 3, reaching 2·2 + 3 = 7: two zeros
        ("SAME_UPPER", 5, 3, 2, 1, False, (1, 1)),
        # in 6, stride 2 → out 3, reaching 7: one zero
        ("SAME_UPPER", 6, 3, 2, 1, False, (0, 1)),
        ("SAME_LOWER", 6, 3, 2, 1, False, (1, 0)),
        ("same_lower", 6, 2, 1, 3, False, (2, 1)),  # a kernel of 2 dilated to 4
        ("Same_Upper", 7, 2, 4, 1, False, (0, 0)),  # out 2, reaching 6 only
        ("SAME_UPPER", 9, 2, 4, 1, False, (0, 1)),  # out 3, reaching 10
        ("VALID", 6, 3, 2, 1, False, (0, 0)),
        ("none", 6, 3, 2, 1, False, (7, 8)),
        (None, 6, 3, 2, 1, False, (7, 8)),
        # src · stride positions are left of stride · (src − 1) + extent: extent − stride too many
        ("SAME_UPPER", 5, 3, 2, 1, True, (0, 1)),
        ("SAME_LOWER", 5, 3, 2, 1, True, (1, 0)),
        ("SAME_LOWER", 4, 3, 2, 2, True, (2, 1)),
        ("SAME_UPPER", 5, 2, 3, 1, True, (0, 0)),
        ("Valid", 5, 3, 2, 1, True, (0, 0)),
    ],
)
def test_oracle_pads_worked_by_hand(mode, size, kernel, stride, dilation, transposed, expected):
    assert pads(mode, (7,), (8,), (size,), (kernel,), (stride,), (dilation,), transposed) == [expected]


def test_oracle_rounding_worked_by_hand():
    # 8 significant bits: steps of 2 from 256 on, ties to the even multiple
    values = np.array([255.0, 256, 257, 258, 259, 261, -257, 513, 515, 514, 0])
    assert rounded(values, "bf16").astype(int).tolist() == [
        255,
        256,
        256,
        258,
        260,
        260,
        -256,
        512,
        516,
        512,
        0,
    ]
    values = np.array([2047.0, 2049, 2051, 4098, 4102, 4099, -2051])
    assert rounded(values, "f16").astype(int).tolist() == [2047, 2048, 2052, 4096, 4104, 4100, -2052]
    assert rounded(np.array([2.0**24 + 1, 2**24 + 3]), "f32").tolist() == [2**24, 2**24 + 4]
    with pytest.raises(ValueError, match="beyond f16"):
        rounded(np.array([65520.0]), "f16")


DERIVATIVES = [
    "dilated, strided, padded, with slack",
    "groups, strided, dilated, padded",
    "depth multiplier 3, strided",
    "auto_pad SAME_LOWER, dilated, strides don't divide",
    "transposed, dilated and strided",
    "transposed, output padding with pads, dilated",
    "transposed, groups, strided, library layout",
    "transposed, SAME_LOWER, dst not divisible",
]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_oracle_gradient_is_the_forward_ops_derivative(name):
    """The forward op is linear in the weights: each element of dW is ⟨forward(x, that weight alone), dy⟩."""
    formats = {"weights_format": "IOX" if TABLE[name].transposed else "OIX"}
    p = replace(TABLE[name], batch=1, documented=False, **formats)
    x, dy = p.canonical_arrays()
    dw = p.exact()
    for at in product(*map(range, dw.shape)):
        alone = np.zeros(dw.shape)
        alone[at] = 1
        forward = (
            transposed(x, alone, **p.geometry, out=p.out)
            if p.transposed
            else convolution(x, alone, **p.geometry)
        )
        assert np.vdot(forward, dy) == dw[at]


@each("problem", ROWS)
def test_oracles_agree(problem):
    np.testing.assert_array_equal(problem.exact(fast=True), problem.exact())
