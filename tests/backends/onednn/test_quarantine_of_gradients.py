"""Each bound of the quarantine's rules for weight gradients, with a problem on both sides of it."""

import pytest
from attrs import evolve
from gradient_features import features_of as on
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.proven import PROVEN, is_proven
from onednn_graph.backends.onednn.quarantine import SLOW, WRONG, refused
from onednn_graph.ops.convolution_geometry import ConvolutionGeometry

pytestmark = pytest.mark.usefixtures("onednn")

RULES = WRONG["convolution_backward_weights"]


def gradient(
    channels=(32, 32),
    src=(40, 40),
    dst=None,
    kernel=(3, 3),
    strides=None,
    begin=None,
    end=None,
    dilations=None,
    groups=1,
):
    """A problem as the rules see it: `dst` is given where a rule looks at it, and worked out otherwise."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    begin, end = begin or (0,) * rank, end or (0,) * rank
    fitting = tuple(
        (x + b + e - (d * (k - 1) + 1)) // s + 1
        for x, b, e, d, k, s in zip(src, begin, end, dilations, kernel, strides, strict=True)
    )
    return ConvolutionGeometry(
        exchanged=False,
        batch=2,
        groups=groups,
        rows=channels[1] // groups,
        columns=channels[0] // groups,
        src_spatial=src,
        dst_spatial=dst or fitting,
        kernel=kernel,
        strides=strides,
        pads_begin=begin,
        pads_end=end,
        dilations=dilations,
        src_axes=None,
        dst_axes=None,
        weights_axes=None,
    )


WIDE = {"src": (40, 90), "strides": (1, 3)}
ROWS = [  # implementation, what it must not run, what it may, what differs
    (
        "jit_1x1:avx512_core",
        {"channels": (15, 32), "kernel": (1, 1), "strides": (2, 1)},
        {"channels": (16, 32), "kernel": (1, 1), "strides": (2, 1)},
        "16 input channels",
    ),
    (
        "jit_1x1:avx512_core",
        {"channels": (17, 32), "kernel": (1, 1), "strides": (1, 2)},
        {"channels": (32, 17), "kernel": (1, 1), "strides": (1, 2)},
        "output channels don't matter",
    ),
    (
        "jit_1x1:avx512_core",
        {"channels": (3, 32), "kernel": (1, 1), "strides": (1, 2)},
        {"channels": (3, 32), "kernel": (1, 1), "strides": (1, 1)},
        "a stride",
    ),
    (
        "jit_1x1:avx2",
        {"channels": (24, 32), "kernel": (1,), "src": (9,), "strides": (2,)},
        {"channels": (48, 32), "kernel": (1,), "src": (9,), "strides": (2,)},
        "other instruction sets too",
    ),
    (
        "jit_bf16_1x1:avx512_core_bf16",
        {"channels": (2, 32), "kernel": (1, 1), "strides": (2, 2)},
        {"channels": (2, 32), "kernel": (1, 1)},
        "a stride",
    ),
    (
        "jit_bf16_1x1:avx512_core",
        {"channels": (31, 32), "kernel": (1, 1), "strides": (2, 2)},
        {"channels": (32, 32), "kernel": (1, 1), "strides": (2, 2)},
        "a multiple of 16",
    ),
    (
        "jit_bf16_1x1:avx512_core",
        {"channels": (64, 32), "groups": 8, "kernel": (1, 1), "strides": (2, 2)},
        {"channels": (64, 32), "groups": 4, "kernel": (1, 1), "strides": (2, 2)},
        "channels of a group",
    ),
    (
        "jit:avx512_core_amx",
        {"src": (40, 2), "kernel": (1, 5), "strides": (1, 3), "begin": (0, 2), "end": (0, 2)},
        {"src": (40, 3), "kernel": (1, 5), "strides": (1, 3), "begin": (0, 2), "end": (0, 2)},
        "as wide as its stride",
    ),
    (
        "jit:avx512_core_amx",
        {"src": (40, 1), "kernel": (1, 5), "strides": (1, 2), "end": (0, 4)},
        {"src": (40, 1), "kernel": (1, 1), "strides": (1, 2)},
        "zeros beside it",
    ),
    (
        "brgconv_bwd_w:avx512_core_amx",
        {
            "channels": (64, 64),
            "src": (40, 1),
            "kernel": (1, 5),
            "strides": (1, 2),
            "begin": (0, 2),
            "end": (0, 2),
        },
        {
            "channels": (64, 64),
            "src": (40, 2),
            "kernel": (1, 5),
            "strides": (1, 2),
            "begin": (0, 2),
            "end": (0, 2),
        },
        "as wide as its stride in batches",
    ),
    (
        "brgconv_bwd_w:avx512_core_amx",
        {"channels": (48, 64)},
        {"channels": (128, 64)},
        "64 channels",
    ),
    (
        "brgconv_bwd_w:avx512_core_amx",
        {"channels": (128, 64), "groups": 4},
        {"channels": (128, 64), "groups": 2},
        "64 channels of a group",
    ),
    (
        "brgconv_bwd_w:avx512_core_amx",
        {"channels": (48, 64), "kernel": (3, 2)},
        {"channels": (48, 64), "kernel": (3, 1)},
        "the kernel's width",
    ),
    (
        "jit:avx512_core_amx",
        {"channels": (40, 32), "dilations": (2, 1)},
        {"channels": (48, 32), "dilations": (2, 1)},
        "16 input channels with AMX",
    ),
    (
        "jit:avx512_core_amx",
        {"channels": (40, 32), "dilations": (2, 1)},
        {"channels": (40, 32), "dilations": (1, 2)},
        "the height dilated with AMX",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "end": (0, 7), "dst": (38, 29)},
        {**WIDE, "end": (0, 7), "dst": (38, 28)},
        "28 wide",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "end": (0, 7), "dst": (38, 29)},
        {**WIDE, "end": (0, 6), "dst": (38, 29)},
        "7 zeros",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "end": (0, 7), "dst": (38, 29), "strides": (1, 2)},
        {**WIDE, "end": (0, 7), "dst": (38, 29), "strides": (2, 1)},
        "the stride of the width",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "end": (0, 7), "dst": (28, 29)},
        {**WIDE, "end": (7, 0), "dst": (29, 28)},
        "width",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "begin": (0, 15), "end": (0, 2), "dst": (38, 29)},
        {**WIDE, "begin": (0, 14), "end": (0, 2), "dst": (38, 29)},
        "14 zeros before",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "begin": (0, 15), "end": (0, 1), "dst": (38, 29)},
        {**WIDE, "begin": (0, 15), "dst": (38, 29)},
        "zeros behind as well",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "begin": (0, 15), "end": (0, 1), "dst": (38, 29)},
        {**WIDE, "begin": (0, 15), "end": (0, 1), "dst": (38, 28)},
        "28 wide with zeros before",
    ),
    (
        "jit:avx512_core",
        {**WIDE, "begin": (0, 15), "end": (0, 1), "dst": (38, 29), "strides": (1, 2)},
        {**WIDE, "begin": (0, 15), "end": (0, 1), "dst": (38, 29), "strides": (2, 1)},
        "the stride of the width with zeros before",
    ),
    # The extent of a dilated kernel is 2·(3 − 1) + 1 = 5; with a stride of 2 there must be 7 positions.
    (
        "jit:avx512_core",
        {
            "src": (6, 9, 9),
            "kernel": (3, 1, 1),
            "dilations": (2, 1, 1),
            "strides": (2, 1, 1),
            "end": (1, 0, 0),
        },
        {
            "src": (7, 9, 9),
            "kernel": (3, 1, 1),
            "dilations": (2, 1, 1),
            "strides": (2, 1, 1),
            "end": (1, 0, 0),
        },
        "room for the extent and a stride",
    ),
    (
        "jit:avx512_core",
        {"src": (9, 9, 3), "kernel": (1, 1, 3), "begin": (0, 0, 1)},
        {"src": (9, 9, 3), "kernel": (1, 1, 3)},
        "padding",
    ),
    (
        "jit:avx512_core",
        {"src": (9, 3, 9), "kernel": (1, 3, 1), "begin": (0, 1, 0)},
        {"src": (9, 3, 9), "kernel": (1, 3, 1), "begin": (1, 0, 1)},
        "padding of the same axis",
    ),
    (
        "jit:avx512_core",
        {"src": (3, 9, 9), "kernel": (3, 1, 1), "end": (1, 0, 0)},
        {"src": (3, 9), "kernel": (3, 1), "end": (1, 0)},
        "three axes",
    ),
    (
        "jit_bf16:avx512_core",
        {"src": (3, 9), "kernel": (3, 1), "end": (1, 0)},
        {"src": (4, 9), "kernel": (3, 1), "end": (1, 0)},
        "room, in 2-D too",
    ),
    (
        "jit_bf16:avx512_core_bf16",
        {"src": (4,), "kernel": (3,), "end": (1,), "strides": (2,), "dst": (4,)},
        {"src": (5,), "kernel": (3,), "end": (1,), "strides": (2,), "dst": (4,)},
        "room, in 1-D too",
    ),
    (
        "jit_bf16:avx512_core",
        {"channels": (32, 16), "groups": 2, "src": (9, 9)},
        {"channels": (32, 32), "groups": 2, "src": (9, 9)},
        "output channels of a group",
    ),
    (
        "jit_bf16:avx512_core",
        {"channels": (16, 32), "groups": 2, "src": (9, 9)},
        {"channels": (16, 32), "groups": 1, "src": (9, 9)},
        "groups",
    ),
    (
        "jit_bf16:avx512_core",
        {"channels": (24, 32), "dilations": (2, 1), "src": (9, 31), "dst": (5, 29)},
        {"channels": (24, 32), "dilations": (2, 1), "src": (9, 30), "dst": (5, 28)},
        "28 wide",
    ),
    (
        "jit_bf16:avx512_core",
        {"channels": (24, 32), "dilations": (2, 1), "src": (9, 31)},
        {"channels": (32, 24), "dilations": (2, 1), "src": (9, 31)},
        "16 input channels",
    ),
    (
        "jit_bf16:avx512_core",
        {"channels": (24, 32), "dilations": (2, 2), "src": (9, 33)},
        {"channels": (24, 32), "dilations": (1, 2), "src": (9, 33)},
        "the height's dilation",
    ),
    (
        "jit_bf16:avx512_core",
        {"channels": (24, 32), "dilations": (2, 1), "src": (9, 31)},
        {"channels": (24, 32), "dilations": (2, 1, 1), "kernel": (3, 3, 3), "src": (9, 31, 31)},
        "two axes",
    ),
    (
        "jit_bf16:avx512_core",
        {"src": (9, 9), "strides": (1, 2), "dst": (7, 3)},
        {"src": (9, 9), "strides": (1, 2), "dst": (7, 4)},
        "4 wide",
    ),
    (
        "jit_bf16:avx512_core",
        {"src": (9, 9), "strides": (2, 2), "dst": (3, 3)},
        {"src": (9, 9), "strides": (2, 1), "dst": (3, 3)},
        "the stride of the width",
    ),
]


@pytest.mark.parametrize(
    ("implementation", "inside", "outside", "what"), ROWS, ids=[f"{row[0]}, {row[3]}" for row in ROWS]
)
def test_each_bound_has_two_sides(implementation, inside, outside, what):
    reason = refused(on(implementation, gradient(**inside)))
    assert reason is not None
    assert reason.startswith(f"{implementation} is barred when ")
    assert refused(on(implementation, gradient(**outside))) is None


def test_a_kernel_behind_copies_is_barred_as_it_is_by_itself():
    """As later versions offer kernels for channels last on plain images."""
    implementation, inside, outside, _ = ROWS[0]
    wrapped = f"jit_uni_ncsp:conv+{implementation}"
    assert any(rule.bars(on(wrapped, gradient(**inside))) for rule in RULES)
    assert not any(rule.bars(on(wrapped, gradient(**outside))) for rule in RULES)


def test_a_kernel_behind_copies_is_slow_from_where_it_came_on():
    (rule,) = SLOW["convolution_backward_weights"]
    assert rule.bars(on("jit_uni_ncsp:conv+x64:gemm:jit", gradient()))
    assert not rule.bars(on("x64:gemm:jit", gradient()))
    assert [rule.holds(version) for version in ((3, 6), (3, 7), (3, 13))] == [False, True, True]


def test_every_rule_has_a_row():
    """For each rule some row is barred by that rule alone."""
    alone = set()
    for implementation, inside, _, _ in ROWS:
        found = [rule.name for rule in RULES if rule.bars(on(implementation, gradient(**inside)))]
        if len(found) == 1:
            alone.add(found[0])
    assert {rule.name for rule in RULES} == alone


@pytest.mark.parametrize(
    ("place", "others"),
    [
        (0, ["jit:avx512_core", "jit:avx2", "jit_dw:avx512_core", "brg:avx512_core", "x64:gemm:jit"]),
        (7, ["jit:avx512_core", "x64:gemm:jit"]),
        (10, ["jit:avx512_core_amx", "jit_bf16:avx512_core_bf16"]),
        (15, ["jit:avx2", "jit_dw:avx512_core", "jit_1x1:avx512_core", "brg:avx512_core"]),
        (27, ["jit_dw:avx512_core_bf16", "brg:avx512_core_bf16", "gemm:jit:bf16"]),
        (29, ["jit_dw:avx512_core_bf16", "jit_bf16_1x1:avx512_core_bf16", "jit:avx512_core"]),
    ],
)
def test_rules_are_for_their_implementation_only(place, others):
    implementation, inside, _, _ = ROWS[place]
    assert refused(on(implementation, gradient(**inside)))
    for other in others:
        assert refused(on(other, gradient(**inside))) is None


@pytest.mark.parametrize("implementation", ["ref:any", "ref"])
def test_reference_loops_run_only_where_a_strategy_asks_for_them(implementation):
    assert "reference loop only" in refused(on(implementation, gradient()))
    assert refused(on(implementation, gradient()), references=True) is None
    assert refused(on("jit:ref", gradient())) is None


def test_an_implementation_is_proven_by_its_whole_name(onednn):
    kind, lib = "convolution_backward_weights", evolve(load(), version=(3, 2, 0))
    assert all(is_proven(lib, kind, name) for name in PROVEN[3, 2][kind])
    for name in (
        "jit",
        "jit:avx512",
        "jit:avx512_core_fp16",
        "brg:avx512_core_amx",
        "jit_bf16:avx512_core_",
        "",
    ):
        assert not is_proven(lib, kind, name)


def test_no_reference_loop_is_proven():
    listed = [name for one in PROVEN.values() for names in one.values() for name in names]
    assert listed
    assert not [name for name in listed if name.startswith("ref")]
