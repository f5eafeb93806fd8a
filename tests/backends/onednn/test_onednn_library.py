"""The binding of the library: its numbers, finding it, plans, and the kernels that must not run."""

import ctypes.util
import importlib.metadata
import re
import subprocess
import sys
from ctypes import c_int, c_size_t, c_uint
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import PurePosixPath
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from attrs import evolve
from c_headers import enumerators
from gradient_features import features_of
from onednn_graph.backends.onednn import proven, quarantine
from onednn_graph.backends.onednn.library import finding, runtimes
from onednn_graph.backends.onednn.library import loading as library
from onednn_graph.backends.onednn.library.enumerators import (
    Algorithm,
    Arg,
    CpuIsa,
    FpmathMode,
    NormalizationFlags,
    Propagation,
    Query,
)
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import NativeEngine, Primitive, PrimitiveDesc
from onednn_graph.backends.onednn.library.prototypes import PROTOTYPES
from onednn_graph.backends.onednn.plan.arena import ALIGNMENT, GUARDS, NAN_BYTE
from onednn_graph.backends.onednn.plan.chooser import Chooser
from onednn_graph.backends.onednn.plan.plan import Plan
from onednn_graph.backends.onednn.plan.steps import Buffer, copy_step
from onednn_graph.backends.onednn.rules.rule import Rule
from onednn_graph.ops.convolution_geometry import geometry
from onednn_graph.ops.data_types import DataType
from oracle import Problem
from strategies import check, eagerly

# --- numbers against the C headers ----------------------------------------------------------------------


def test_numbers_are_those_of_the_headers(headers):
    known = enumerators(headers)
    ours = {f"DNNL_ARG_{arg.name}": arg for arg in Arg}
    ours |= {f"dnnl_query_{query.name}": query for query in Query}
    ours |= {f"dnnl_fpmath_mode_{mode.name}": mode for mode in FpmathMode}
    ours |= {f"dnnl_cpu_isa_{isa.name}": isa for isa in CpuIsa}
    ours |= {f"dnnl_{one.name}": one for one in (*Algorithm, *Propagation)}
    later = {f"dnnl_{dtype.value}": number for dtype, number in library.LATER_DATA_TYPES.items()}
    later |= {f"dnnl_{one.name}": one for one in (NormalizationFlags.rms_norm,)}
    flags = {f"dnnl_{one.name}": one for one in NormalizationFlags if one}
    ours |= {name: v for name, v in (flags | later).items() if name in known or name not in later}
    ours |= {f"dnnl_{dtype.value}": number for dtype, number in library.DATA_TYPES.items()}
    ours |= {
        "DNNL_MAX_NDIMS": library.MAX_NDIMS,
        "dnnl_success": library.SUCCESS,
        "dnnl_invalid_arguments": library.INVALID_ARGUMENTS,
        "dnnl_unimplemented": library.UNIMPLEMENTED,
        "dnnl_last_impl_reached": library.LAST_IMPL_REACHED,
        "dnnl_cpu": library.ENGINE_CPU,
        "dnnl_stream_default_flags": library.STREAM_DEFAULT_FLAGS,
        "dnnl_scratchpad_mode_user": library.SCRATCHPAD_USER,
        "dnnl_format_tag_any": library.FORMAT_TAG_ANY,
    }
    wrong = {name: (int(v), known.get(name)) for name, v in ours.items() if known.get(name) != int(v)}
    assert not wrong
    assert len(ours) > 50


NUMBER = r"(const )?(int|size_t|unsigned|dnnl_\w*(kind|mode|flags|type|tag|query)_?t?)\b[^*\[]*$"
"""A parameter that is passed as an integer: a size, an enumerator, flags."""


def test_prototypes_are_those_of_the_headers(headers):
    """Every function has as many parameters as declared, pointers where pointers are."""
    for name, argtypes in PROTOTYPES.items():
        found = re.search(rf"\b{name}\s*\(([^;]*?)\)\s*;", headers, flags=re.DOTALL)
        assert found, name
        parameters = [p.strip() for p in found.group(1).split(",")]
        assert len(parameters) == len(argtypes), name
        for declared, ours in zip(parameters, argtypes, strict=True):
            is_number = bool(re.match(NUMBER, declared))
            assert is_number == (ours in (c_int, c_uint, c_size_t)), (name, declared)


def test_statuses_are_named(onednn):
    lib = library.load()
    lib.check(library.SUCCESS, "x")
    with pytest.raises(og.errors.LibraryError, match="'invalid arguments'.*backend='numpy'"):
        lib.check(library.INVALID_ARGUMENTS, "dnnl_x")
    with pytest.raises(og.errors.LibraryError, match="status 99"):
        lib.check(99, "dnnl_x")
    assert (3, 2) <= lib.version[:2] < (4, 0)
    assert isinstance(lib.effective_isa, str)


# --- finding it -----------------------------------------------------------------------------------------


def test_other_platforms(monkeypatch):
    monkeypatch.setattr(finding.sys, "platform", "darwin")
    with pytest.raises(og.errors.LibraryError, match="Linux"):
        finding.find_library()


def test_other_machines(monkeypatch):
    monkeypatch.setattr(finding.platform, "machine", lambda: "aarch64")
    with pytest.raises(og.errors.LibraryError, match="aarch64"):
        finding.find_library()


@pytest.fixture
def linux(monkeypatch):
    monkeypatch.setattr(finding.sys, "platform", "linux")
    monkeypatch.setattr(finding.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("ONEDNN_GRAPH_LIBRARY", raising=False)


def test_the_distribution_is_missing(monkeypatch, linux):
    def files(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(finding.importlib.metadata, "files", files)
    with pytest.raises(og.errors.LibraryError, match="pip install onednn-cpu-gomp==2023.2.0"):
        finding.find_library()


@pytest.mark.parametrize("files", [None, [], ["other.txt"]])
def test_the_file_is_missing(monkeypatch, linux, files):
    listed = files and [SimpleNamespace(name=PurePosixPath(f).name, locate=lambda: "/nowhere") for f in files]
    monkeypatch.setattr(finding.importlib.metadata, "files", lambda name: listed)
    with pytest.raises(og.errors.LibraryError, match="force-reinstall"):
        finding.find_library()


# --- a library of the user's own -----------------------------------------------------------------------


def elf(machine, big=False):
    """The beginning of a shared library for a machine."""
    order = "big" if big else "little"
    return b"\x7fELF\x02" + bytes([2 if big else 1]) + bytes(12) + machine.to_bytes(2, order) + bytes(40)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        ("folder", "is a folder; name the file libdnnl.so in it"),
        (b"not a library", "is no shared library"),
        (b"MZ\x90\x00" + bytes(60), "is no shared library"),
        (elf(183), "is for aarch64; name a libdnnl.so for x86_64"),
        (elf(22, big=True), "is for s390x"),
        (elf(9999), "is for machine number 9999"),
    ],
)
def test_what_is_no_library_for_this_machine(monkeypatch, linux, tmp_path, content, says):
    path = tmp_path / "libdnnl.so.3"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("ONEDNN_GRAPH_LIBRARY", str(path))
    with pytest.raises(og.errors.LibraryError, match=f"ONEDNN_GRAPH_LIBRARY names .*{says}"):
        finding.find_library()


def test_the_name_in_the_environment_is_a_link_or_of_the_home_folder(monkeypatch, linux, tmp_path):
    (tmp_path / "libdnnl.so.3.6").write_bytes(elf(62))
    (tmp_path / "libdnnl.so").symlink_to("libdnnl.so.3.6")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ONEDNN_GRAPH_LIBRARY", "~/libdnnl.so")
    found = finding.find_library()
    assert found == finding.Found((tmp_path / "libdnnl.so.3.6").resolve(), "ONEDNN_GRAPH_LIBRARY")
    assert not found.is_wheel


def test_an_empty_name_is_none(monkeypatch, onednn, linux):
    monkeypatch.setenv("ONEDNN_GRAPH_LIBRARY", "")
    assert finding.find_library().is_wheel


@pytest.fixture
def loading(monkeypatch):
    """`load` without its cache."""
    return library.load.__wrapped__


def found(monkeypatch, path):
    monkeypatch.setattr(library, "find_library", lambda: finding.Found(path, "a test"))


def test_a_file_that_is_no_library(monkeypatch, tmp_path, loading):
    path = tmp_path / "libdnnl.so.3"
    path.write_bytes(b"not a library")
    found(monkeypatch, path)
    with pytest.raises(og.errors.LibraryError, match="can't be loaded"):
        loading()


def test_a_library_that_is_not_onednn(monkeypatch, loading, onednn):
    found(monkeypatch, ctypes.util.find_library("m"))
    with pytest.raises(og.errors.LibraryError, match="is no libdnnl: it has no function dnnl_version"):
        loading()


@pytest.mark.parametrize(("bounds", "says"), [(((3, 99), (4, 0)), "too old"), (((2, 0), (3, 2)), "too new")])
def test_another_version(monkeypatch, loading, onednn, bounds, says):
    monkeypatch.setattr(library, "OLDEST", bounds[0])
    monkeypatch.setattr(library, "TOO_NEW", bounds[1])
    with pytest.raises(
        og.errors.LibraryError, match=rf"is oneDNN 3\.\d+\.\d+, which is {says}; use one from"
    ):
        loading()


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (runtimes.NONE, "runs on GPUs alone"),
        (runtimes.THREAD_POOL, "an application's thread pool"),
        (runtimes.SYCL, "by SYCL"),
        (77, "has threads of kind 77"),
    ],
)
def test_builds_whose_threads_are_of_no_use(number, says):
    with pytest.raises(
        og.errors.LibraryError, match=f"{says}.*; use one .*ONEDNN_CPU_RUNTIME=OMP, TBB or SEQ"
    ):
        runtimes.runtime_of(SimpleNamespace(), number, "libdnnl.so")


def test_threads_of_builds():
    class Function:
        def __init__(self, value):
            self.value = value

        def __call__(self, *args):
            return self.value

    getters = ("max_threads", "thread_limit", "dynamic", "max_active_levels")
    setters = ("set_num_threads", "set_dynamic", "set_max_active_levels", "in_parallel")
    openmp = {f"omp_get_{name}": Function(5) for name in getters}
    openmp |= {f"omp_{name}": Function(0) for name in setters}
    gnu = runtimes.runtime_of(SimpleNamespace(**openmp), runtimes.OPENMP, "x")
    other = runtimes.runtime_of(
        SimpleNamespace(kmp_get_blocktime=Function(0), **openmp), runtimes.OPENMP, "x"
    )
    tbb = runtimes.runtime_of(SimpleNamespace(**{runtimes.TBB_CONCURRENCY: Function(3)}), runtimes.TBB, "x")
    alone = runtimes.runtime_of(SimpleNamespace(), runtimes.SEQUENTIAL, "x")
    assert [one.count() for one in (gnu, other, tbb, alone)] == [5, 5, 3, 1]
    assert [one.granted(4) for one in (gnu, other, tbb, alone)] == [4, 4, 3, 1]
    assert (gnu.name, other.name) == ("GNU OpenMP", "Intel's or LLVM's OpenMP")


def test_builds_without_a_setting_keep_their_threads(onednn):
    for runtime, threads in ((tbb_of(3), 3), (runtimes.CallingThread(), 1)):
        lib = evolve(library.load(), runtime=runtime)
        with lib.using(2):
            assert lib.threads == threads


def tbb_of(threads):
    class Concurrency:
        def __call__(self, arena):
            return threads

    return runtimes.ThreadingBuildingBlocks(SimpleNamespace(**{runtimes.TBB_CONCURRENCY: Concurrency()}))


IN_A_PROCESS = """
import sys
import onednn_graph as og
from onednn_graph.backends.onednn.library.loading import load

path = sys.argv[1]
for wrong, says in ((path + "-not", "no such file"), (__file__, "no shared library")):
    try:
        og.use_library(wrong)
    except og.errors.LibraryError as error:
        assert f"og.use_library names {wrong}" in str(error) and says in str(error), error
    else:
        raise SystemExit("a file that is no library was taken")
og.use_library(path)
assert load().source == "og.use_library" and not load().build[3:] == ()
og.use_library(path)
try:
    og.use_library(__file__)
except og.errors.LibraryError as error:
    assert "is loaded already" in str(error) and "ONEDNN_GRAPH_LIBRARY" in str(error), error
else:
    raise SystemExit("a second library was taken")
print(*og.relu(__import__("numpy").array([-1.0, 2.0], "f4"), backend="onednn"))
"""


def test_a_program_names_a_library_before_it_uses_any(onednn, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(IN_A_PROCESS)
    path = str(library.load().path)
    done = subprocess.run([sys.executable, str(script), path], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split(), done.returncode) == (["0.0", "2.0"], 0), done.stderr


# --- what holds for which version -----------------------------------------------------------------------


ALWAYS = Rule(name="x", implementation="jit", condition="always", applies=lambda features: True, seen="x")


@pytest.mark.parametrize(
    ("since", "fixed", "holds"),
    [
        ((3, 2), None, [(3, 2), (3, 6), (3, 13)]),
        ((3, 3), None, [(3, 6), (3, 13)]),
        ((3, 2), (3, 6), [(3, 2)]),
        ((3, 6), (3, 13), [(3, 6)]),
    ],
)
def test_rules_hold_for_versions(since, fixed, holds):
    rule = evolve(ALWAYS, since=since, fixed=fixed)
    assert [version for version in ((3, 2), (3, 6), (3, 13)) if rule.holds(version)] == holds


def test_rules_are_asked_for_the_version_that_is_loaded(monkeypatch, onednn):
    function = "convolution_backward_weights"
    monkeypatch.setitem(quarantine.WRONG, function, (evolve(ALWAYS, since=(3, 5)),))
    of = {(3, 4, 9): None, (3, 5, 0): "jit:uni is barred when always: x"}
    for version, says in of.items():
        monkeypatch.setattr(quarantine, "load", partial(evolve, library.load(), version=version))
        assert quarantine.refused(features_of("jit:uni", gradient(FINE))) == says


def test_what_is_proven_of_one_version_is_not_of_another(monkeypatch, onednn):
    lib = evolve(library.load(), version=(3, 2, 9))
    assert proven.is_proven(lib, "reorder", "jit:uni")
    assert proven.swept(lib) is proven.Swept.full
    later = evolve(lib, version=(3, 99, 0))
    assert not proven.is_proven(later, "reorder", "jit:uni")
    assert proven.swept(later) is proven.Swept.none
    monkeypatch.setattr(proven, "PROVEN", {(3, 99): {"reorder": frozenset({"jit:uni"})}})
    assert proven.is_proven(later, "reorder", "jit:uni")
    assert not proven.is_proven(later, "reorder", "jit:blk")
    assert proven.swept(later) is proven.Swept.part
    assert proven.swept(evolve(lib, runtime=tbb_of(1))) is proven.Swept.none


def test_unavailable_is_a_reason_not_an_error(monkeypatch):
    def missing():
        raise og.errors.LibraryError("it is not here")

    from onednn_graph.backends.onednn import backend

    monkeypatch.setattr(backend, "load", missing)
    assert og.list_backends() | {"native": ""} == {"onednn": "it is not here", "numpy": None, "native": ""}


# --- memory descriptors and plans -----------------------------------------------------------------------


@pytest.fixture
def native(onednn):
    return NativeEngine()


def desc(native, shape, strides, dtype=DataType.f32):
    return MemoryDesc.strided(native.lib, shape, dtype, strides)


def test_layouts_in_words(native):
    assert desc(native, (2, 3, 4, 5), (60, 20, 5, 1)).describe() == "abcd"
    assert desc(native, (2, 3, 4, 5), (60, 1, 15, 3)).describe() == "acdb"
    assert desc(native, (2, 3), (3, 1)) == desc(native, (2, 3), (3, 1))
    assert desc(native, (2, 3), (3, 1)) != desc(native, (2, 3), (1, 2))
    assert desc(native, (2, 3), (3, 1)) != "ab"
    assert desc(native, (2, 3), (3, 1)).nbytes == 24
    blocked = MemoryDesc(
        native.lib,
        native.lib.new(
            "dnnl_memory_desc_create_with_tag",
            4,
            library.dims((1, 16, 2, 2)),
            library.DATA_TYPES[DataType.f32],
            tag("dnnl_aBcd16b"),
        ),
    )
    assert blocked.describe() == "aBcd16b"
    nothing = native.lib.new("dnnl_memory_desc_create_with_tag", 0, library.dims((0,)), 0, 0)
    assert MemoryDesc(native.lib, nothing).describe() == "empty"


def tag(name):
    """The number of a blocked format, asked of the library: it has no names, so the one that fits is sought."""
    lib = library.load()
    for number in range(2, 400):
        try:
            made = MemoryDesc(
                lib, lib.new("dnnl_memory_desc_create_with_tag", 4, library.dims((1, 16, 2, 2)), 3, number)
            )
        except og.errors.LibraryError:
            continue
        if made.describe() == name.removeprefix("dnnl_"):
            return number
    raise AssertionError(name)


def test_descriptors_that_the_library_refuses(native):
    with pytest.raises(og.errors.LibraryError, match="invalid arguments"):
        desc(native, (2, 3), (1, 1))


def copied(native, what, source, target):
    """A step that copies."""
    return copy_step(what, Chooser(native).reorder(source.desc, target.desc).desc, source, target)


def test_a_chain_of_reorders_in_one_arena(native):
    """f32 rows → bf16 columns → f32 rows, through two temporaries; lifetimes that do not meet share memory."""
    rows = desc(native, (64, 32), (32, 1))
    columns = desc(native, (64, 32), (1, 64), DataType.bf16)
    back = desc(native, (64, 32), (1, 64))
    buffers = [Buffer(rows, 0), Buffer(columns), Buffer(back), Buffer(columns), Buffer(rows, 1)]
    steps = [copied(native, "x", buffers[i], buffers[i + 1]) for i in range(len(buffers) - 1)]
    plan = Plan(native, steps)
    temporaries = buffers[1:4]
    places = [(plan.offsets[b], plan.offsets[b] + b.desc.nbytes) for b in temporaries]
    assert all(start % ALIGNMENT == 0 for start, _ in places)
    for first, second in [(0, 1), (1, 2)]:  # these live at one time
        assert places[first][1] <= places[second][0] or places[second][1] <= places[first][0]
    assert max(end for _, end in places) <= plan.scratch_bytes
    assert places[0][0] == places[2][0]  # the first is dead when the third is written
    source = np.random.default_rng(0).integers(-99, 99, (64, 32)).astype(np.float32)
    target = np.zeros_like(source)
    plan.run([source.ctypes.data, target.ctypes.data])
    np.testing.assert_array_equal(target, source)
    frame = plan.take()
    assert plan.take() is not frame
    plan.give(frame)
    assert plan.take() is frame
    with pytest.raises(og.errors.ResourceError, match="without guards"):
        frame.intact()
    assert plan.implementations[0].startswith("reorder x (")


@pytest.mark.parametrize(
    ("place", "seen"), [(-256, True), (-1, True), (0, False), (999, False), (1000, True), (1255, True)]
)
def test_guards_see_what_is_written_beside_an_arena(place, seen):
    with GUARDS.on():
        arena = GUARDS.arena(1000)
    assert arena.start % 64 == 0  # a cache line
    assert arena.inside.ctypes.data == arena.start
    assert (arena.inside == NAN_BYTE).all()
    assert len(arena.inside) == 1000
    arena.memory[arena.start - arena.memory.ctypes.data + place] ^= 1
    assert arena.intact() != seen
    assert GUARDS.arena(1000).zone == 0


def test_frames_have_guards_where_they_are_on(native):
    a, b = desc(native, (4, 4), (4, 1)), desc(native, (4, 4), (1, 4))
    temporary = Buffer(b)
    plan = Plan(
        native,
        [copied(native, "x", Buffer(a, 0), temporary), copied(native, "y", temporary, Buffer(a, 1))],
    )
    with GUARDS.on():
        frame = plan.take()
    assert frame.intact()
    source, target = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    frame.point([source.ctypes.data, target.ctypes.data])
    frame.run()
    assert frame.intact()
    np.testing.assert_array_equal(source.reshape(16), target)


def test_a_primitive_that_fails_raises(native, monkeypatch):
    a, b = desc(native, (4, 4), (4, 1)), desc(native, (4, 4), (1, 4))
    plan = Plan(native, [copied(native, "x", Buffer(a, 0), Buffer(b, 1))])
    frame = plan.take()
    frame._runs = [lambda: 1]
    with pytest.raises(og.errors.LibraryError, match="out of memory"):
        frame.run()


# --- what must not run ----------------------------------------------------------------------------------


def gradient(problem):
    src, diff_dst = problem.arrays()
    op = og.Op(
        0,
        problem.kind,
        [og.LogicalTensor(0, "f32", src.shape), og.LogicalTensor(1, "f32", diff_dst.shape)],
        [og.LogicalTensor(2, "f32")],
        weights_shape=problem.weights_shape,
        **problem.attributes,
    )
    return geometry(op.kind, op.attributes, src.shape, diff_dst.shape, problem.weights_shape)


FINE = Problem(channels=(16, 16), size=(8, 8), kernel=(3, 3))
STRIDED = Problem(channels=(8, 16), size=(8, 8), kernel=(1, 1), strides=(2, 2))
BARRED = [
    ("ref:any", FINE),
    ("ref_fused", FINE),
    ("jit_1x1:avx2", STRIDED),
    ("jit_1x1:avx512_core", Problem(channels=(15, 16), size=(8, 8), kernel=(1, 1), strides=(1, 2))),
    ("jit_bf16_1x1:avx512_core_bf16", STRIDED),
    (
        "jit:avx512_core",
        Problem(channels=(2, 2), size=(1, 56), kernel=(1, 10), strides=(1, 2), begin=(0, 0), end=(0, 14)),
    ),
    (
        "jit:avx512_core",
        Problem(size=(2, 3, 3), kernel=(3, 2, 2), begin=(1, 0, 0), end=(1, 0, 0), channels=(2, 2)),
    ),
    ("jit_bf16:avx512_core_bf16", Problem(size=(2, 6), kernel=(3, 2), begin=(1, 0), end=(1, 0))),
    ("jit_bf16:avx512_core", Problem(groups=2, channels=(34, 32), kernel=(1, 1))),
    (
        "jit_bf16:avx512_core_bf16",
        Problem(channels=(17, 16), size=(9, 40), kernel=(3, 2), dilations=(2, 1)),
    ),
    ("jit_bf16:avx512_core", Problem(channels=(16, 16), size=(9, 6), kernel=(3, 2), strides=(1, 2))),
]


@pytest.mark.parametrize(("implementation", "problem"), BARRED, ids=str)
def test_known_bad_kernels_are_barred(implementation, problem, onednn):
    reason = quarantine.refused(features_of(implementation, gradient(problem)))
    assert reason
    assert implementation in reason or "reference loop" in reason


@pytest.mark.parametrize("implementation", sorted(proven.PROVEN[3, 2]["convolution_backward_weights"]))
def test_every_proven_kernel_may_run_something(implementation, onednn):
    assert quarantine.refused(features_of(implementation, gradient(replace(FINE, channels=(64, 64))))) is None


@pytest.mark.parametrize("problem", [p for name, p in BARRED if not name.startswith("ref")], ids=str)
@pytest.mark.parametrize("data", ["NXC", "NCX"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_where_kernels_fail_the_numbers_are_right(problem, data, dtype, onednn):
    sized = replace(problem, data_format=data, dtype=dtype)
    check(sized, eagerly(sized, "onednn"), fast=True)
    check(sized, eagerly(sized, None), fast=True)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_the_reference_loop_never_runs_unasked(dtype, onednn):
    """f16 goes through f32; whatever is left to the library's reference loop goes to NumPy."""
    for data, groups, kernel in product(("NXC", "NCX"), (1, 3), ((1, 1), (3, 2), (5, 5))):
        problem = Problem(
            data_format=data, groups=groups, channels=(3, 6), size=(7, 7), kernel=kernel, dtype=dtype
        )
        src, diff_dst = problem.arrays()
        graph = og.Graph()
        x, dy = graph.input("x", dtype, src.shape), graph.input("dy", dtype, diff_dst.shape)
        graph.op(problem.kind, x, dy, weights_shape=problem.weights_shape, **problem.attributes)
        explanation = graph.compile().explain()[0]
        assert not any("ref" in name for name in explanation.implementations), explanation


def test_an_unproven_kernel_is_verified(onednn, monkeypatch):
    monkeypatch.setattr(proven, "PROVEN", {})
    graph = og.Graph()
    src, diff_dst = FINE.arrays()
    x, dy = graph.input("x", "f32", src.shape), graph.input("dy", "f32", diff_dst.shape)
    graph.op(FINE.kind, x, dy, weights_shape=FINE.weights_shape, name="dw", **FINE.attributes)
    model = graph.compile()
    assert model.explain()[0].verified
    check(FINE, model({"x": src, "dy": diff_dst})["dw"], fast=True)


# --- verify ---------------------------------------------------------------------------------------------


def spoil(monkeypatch, spoils):
    """Plans of the implementations for which `spoils` is true add one to an element of their result."""
    from onednn_graph.backends.onednn.backend import PlanExecutable

    run = PlanExecutable.run

    def wrong(self, inputs, outputs):
        run(self, inputs, outputs)
        if spoils(self.explanation.strategy):
            outputs[0].reshape(-1)[-1] += 1

    monkeypatch.setattr(PlanExecutable, "run", wrong)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("problem", [FINE, STRIDED, Problem(groups=3, channels=(3, 6))], ids=str)
def test_verify_passes_what_is_right(problem, dtype, onednn):
    sized = replace(problem, dtype=dtype)
    src, diff_dst = sized.arrays()
    graph = og.Graph()
    x, dy = graph.input("x", dtype, src.shape), graph.input("dy", dtype, diff_dst.shape)
    graph.op(sized.kind, x, dy, weights_shape=sized.weights_shape, name="dw", **sized.attributes)
    model = graph.compile(verify=True)
    explanation = model.explain()[0]
    assert explanation.verified == (explanation.backend == "onednn")
    assert "verified" in str(explanation)
    check(sized, model({"x": src, "dy": diff_dst})["dw"], fast=True)


def test_verify_finds_a_wrong_kernel_and_takes_the_next(onednn, monkeypatch, swept):
    src, diff_dst = FINE.arrays()

    def compiled(**options):
        graph = og.Graph()
        x, dy = graph.input("x", "f32", src.shape), graph.input("dy", "f32", diff_dst.shape)
        graph.op(FINE.kind, x, dy, weights_shape=FINE.weights_shape, name="dw", **FINE.attributes)
        return graph.compile(**options)

    first = compiled().explain()[0].strategy
    spoil(monkeypatch, lambda strategy: strategy == first)
    with pytest.raises(AssertionError):
        check(FINE, compiled()({"x": src, "dy": diff_dst})["dw"], fast=True)
    model = compiled(verify=True)
    explanation = model.explain()[0]
    assert explanation.backend == "onednn"
    assert explanation.strategy != first
    assert any("failed verification, 1 of" in reason for reason in explanation.rejected)
    check(FINE, model({"x": src, "dy": diff_dst})["dw"], fast=True)


def test_verify_finds_no_right_kernel_at_all(onednn, monkeypatch):
    spoil(monkeypatch, lambda strategy: True)
    src, diff_dst = FINE.arrays()
    graph = og.Graph()
    x, dy = graph.input("x", "f32", src.shape), graph.input("dy", "f32", diff_dst.shape)
    graph.op(FINE.kind, x, dy, weights_shape=FINE.weights_shape, name="dw", **FINE.attributes)
    model = graph.compile(verify=True)
    assert model.explain()[0].backend == "numpy"
    check(FINE, model({"x": src, "dy": diff_dst})["dw"], fast=True)
    with pytest.raises(og.UnsupportedError, match="failed verification"):
        graph.compile(verify=True, backend="onednn")


def test_numpys_bf16_is_the_librarys(onednn):
    """Both round to nearest, ties to even."""
    values = np.array([1.0, 1.00390625, 1.01171875, 257.0, 259.0, -3.3e38, 0.1], np.float32)
    native = NativeEngine()
    a = desc(native, values.shape, (1,))
    b = desc(native, values.shape, (1,), DataType.bf16)
    out = np.zeros(values.shape, ml_dtypes.bfloat16)
    plan = Plan(native, [copied(native, "x", Buffer(a, 0), Buffer(b, 1))])
    plan.run([values.ctypes.data, out.ctypes.data])
    np.testing.assert_array_equal(out, values.astype(ml_dtypes.bfloat16))


OWNERS = {
    "dnnl_memory_desc_destroy": MemoryDesc,
    "dnnl_primitive_desc_destroy": lambda lib, handle: PrimitiveDesc(
        SimpleNamespace(lib=lib), handle, "matmul"
    ),
    "dnnl_primitive_destroy": lambda lib, handle: Primitive(SimpleNamespace(lib=lib), handle),
}


@pytest.mark.parametrize("function", OWNERS)
def test_what_the_library_does_not_destroy_is_reported(monkeypatch, function):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: reported.append(str(one.exc_value)))
    failing = SimpleNamespace(**{function: lambda handle: library.INVALID_ARGUMENTS})
    OWNERS[function](evolve(library.load(), c=failing), 1)
    assert len(reported) == 1, reported
    assert f"{function} failed with 'invalid arguments'" in reported[0]
