"""`onednn-graph doctor` without torch and onnxruntime: what it reads, judges and says."""

import json

import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have
from onednn_graph.ops.errors import ArgumentError
from onednn_graph.tools.doctor.checks import CHECKS, checked
from onednn_graph.tools.doctor.examination import Case, Examined
from onednn_graph.tools.doctor.kernels import hits, is_loop
from onednn_graph.tools.doctor.layers import layers, name_of
from onednn_graph.tools.doctor.records import Call, Departure, Ours, OurStep, Peer, Timed
from onednn_graph.tools.doctor.report import as_data, print_report
from onednn_graph.tools.doctor.subjects import Subject, made_up, shapes_of, subject_of
from onednn_graph.tools.doctor.threads import Machine, busy_cpus, cores_of, has_any, openmp_files, settings
from onednn_graph.tools.doctor.verbose import about, primitive, primitives

HEAD = """onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa71049cd69a3df32adcccb623b12cd7baa22)
onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2
onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost and bfloat16 support
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors"""
CONV = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,{impl},forward_training,"
    "src:f32:a:blocked:abcd::f0 wei:f32:ap:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd16b::f0,"
    "attr-scratchpad:user,alg:convolution_direct,mb2_ic3oc8_ih16oh14kh3sh1dh0ph0_iw16ow14kw3sw1dw0pw0,6.5"
)
VECTOR = (
    "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,"
    "src:bf16::blocked:ab::f0 wei:bf16::blocked:ba::f0 dst:bf16::blocked:ab::f0,attr-scratchpad:user,,2x1152:1152x1,0.1"
)
"""Falls under the rule of stray strides of axes of one element, which is known of 3.3 and later."""


def machine(**more):
    found = {"cpus": 8, "allowed": 8, "cores": 8, "quota": None, "busy": 0.0, "environment": {}}
    return Machine(**{**found, **more})


def case(calls=(), steps=(), **more):
    parts = {
        "subject": Subject(text="model.py", kind="torch", path="model.py"),
        "machine": machine(),
        "peer": Peer(
            name="torch", version="2.13.0", onednn=(3, 12, 0), isa="avx512_core_bf16", threads=8, calls=calls
        ),
        "ours": Ours(way="from_torch", steps=steps, threads=8),
        "layers": layers(calls, steps),
        "made_up": (),
    }
    return Case(**{**parts, **more})


def codes(found):
    return [one.code for one in checked(found)]


class TestVerbose:
    def test_a_primitive_is_read(self):
        ran = primitive(CONV.format(impl="jit:avx512_core"))
        assert (ran.kind, ran.implementation, ran.algorithm) == (
            "convolution",
            "jit:avx512_core",
            "convolution_direct",
        )
        assert ran.seconds == 6.5e-3
        assert [(one.name, one.data_type, one.tag) for one in ran.tensors] == [
            ("src", "f32", "abcd"),
            ("wei", "f32", "Acdb16a"),
            ("bia", "f32", "a"),
            ("dst", "f32", "aBcd16b"),
        ]
        assert ran.types == {"f32"}

    def test_the_form_of_earlier_versions_is_read(self):
        ran = primitive(
            "onednn_verbose,exec,cpu,matmul,gemm:jit:f32,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
            "dst_f32::blocked:ab:f0,attr-post-ops:eltwise_relu:0:0+binary_add:f32:2 ,,2x3:3x4,0.25"
        )
        assert [one.name for one in ran.tensors] == ["src", "wei", "dst"]
        assert ran.attributes["post-ops"] == "eltwise_relu:0:0+binary_add:f32:2"
        assert hits(ran, (3, 2)) == ()

    def test_strides_are_read_where_a_tag_does_not_say_all(self):
        line = VECTOR.replace("src:bf16::blocked:ab::f0", "src:bf16::blocked:ab:2304x2:f0")
        assert primitive(line).tensors[0].strides == (2304, 2)

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "onednn_verbose,v1,prim",
            "loss: 0.5, onednn_verbose, exec",
            CONV.format(impl="jit")[:120],
            CONV.format(impl="jit") + "x",
            "onednn_verbose,v1,primitive,create,cpu,matmul,gemm,undef,,,,2x3:3x4,0.1",
            "onednn_verbose,v1,primitive,exec,gpu,matmul,ocl,undef,src:f32::blocked:ab::f0,,,2x3:3x4,0.1",
            "\x00\ufffd,exec,cpu,,,,,,,,",
        ],
    )
    def test_garbage_is_no_primitive(self, line):
        assert primitive(line) is None
        assert primitives([line, VECTOR]) == (primitive(VECTOR),)

    def test_text_before_a_line_does_not_hide_it(self):
        assert primitive(f"epoch 1 {VECTOR}") == primitive(VECTOR)

    def test_the_library_says_what_it_is(self):
        told = about(HEAD.splitlines())
        assert (told.version, told.threads, told.isa) == ((3, 12, 0), 2, "avx512_core_bf16")
        assert about(["nothing"]).version is None


class TestRules:
    def test_a_rule_is_hit_by_what_another_copy_has_run(self, onednn):
        (hit,) = hits(primitive(VECTOR), (3, 12, 0), "avx512_core_bf16", 2)
        assert (hit.table, hit.rule.name, hit.certain) == ("wrong", "stray-ones", False)
        assert "whether 3.12 still does it is not proven" in hit.told((3, 12, 0))

    def test_a_version_before_the_rule_is_not_blamed(self, onednn):
        assert hits(primitive(VECTOR), (3, 2, 0), "avx512_core_bf16", 2) == ()

    def test_other_shapes_are_not_blamed(self, onednn):
        assert hits(primitive(VECTOR.replace("1152x1,", "1152x10,")), (3, 12), "avx512_core_bf16", 2) == ()

    def test_blocked_layouts_and_groups_are_described(self, onednn):
        assert hits(primitive(CONV.format(impl="jit:avx512_core")), (3, 2)) == ()
        grouped = CONV.replace("wei:f32:ap:blocked:Acdb16a", "wei:f32:a:blocked:abcde").replace(
            "mb2_ic3oc8", "g4mb2_ic8oc8"
        )
        assert hits(primitive(grouped.format(impl="x64:gemm:jit")), (3, 2)) == ()

    def test_integers_without_vnni_are_imprecise(self, onednn):
        line = (
            VECTOR.replace("src:bf16", "src:u8").replace("wei:bf16", "wei:s8").replace("dst:bf16", "dst:f32")
        )
        found = hits(
            primitive(line.replace("avx512_core_bf16", "avx2").replace("1152x1,", "1152x10,")),
            (3, 2),
            "avx2",
            2,
        )
        assert [(hit.table, hit.rule.name, hit.certain) for hit in found] == [
            ("imprecise", "saturating", True)
        ]

    def test_what_this_copy_can_not_describe_is_not_judged(self, onednn):
        assert hits(primitive(CONV.format(impl="jit").replace("aBcd16b", "aBcd3b")), (3, 12)) is None
        assert hits(primitive(VECTOR.replace("2x1152:1152x1", "strange")), (3, 12)) is None

    def test_loops_are_known_by_name(self):
        assert [is_loop(name) for name in ("ref:any", "gemm:ref", "conv:any+ref:any", "jit:avx2", "brgconv:avx2")] == [
            True, True, True, False, False,
        ]  # fmt: skip


def step(items, partition, seconds):
    return OurStep(
        items=items, partition=partition, name="kernel", implementation="jit", seconds=seconds, host=False
    )


class TestLayers:
    def test_what_ours_fuses_is_one_row(self):
        calls = [Call(item=item, op="", seconds=1.0) for item in ("b.conv", "b.bn", "b.relu", "fc")]
        steps = [step(("b.conv", "b.bn", "b.relu"), 0, 0.5), step(("fc",), 1, 0.25)]
        first, second = layers(calls, steps)
        assert (first.name, first.peer_seconds, first.our_seconds) == ("b.conv + bn + relu", 3.0, 0.5)
        assert (second.name, second.peer_seconds, second.our_seconds) == ("fc", 1.0, 0.25)

    def test_calls_of_one_module_are_rows_of_their_own(self):
        calls = [Call(item=item, op="", seconds=1.0) for item in ("relu", "conv", "relu.2")]
        steps = [
            OurStep(items=(name,), partition=n, name="", implementation="", seconds=0.5, host=False)
            for n, name in enumerate(("relu", "conv", "relu.2"))
        ]
        assert [(row.name, row.our_seconds) for row in layers(calls, steps)] == [
            ("relu", 0.5), ("conv", 0.5), ("relu.2", 0.5),
        ]  # fmt: skip

    def test_what_the_peer_fuses_is_one_row_in_the_model_s_order(self):
        calls = [Call(item="relu", op="Conv", seconds=1.0), Call(item="fc", op="Gemm", seconds=1.0)]
        steps = [OurStep(items=("conv",), partition=0, name="", implementation="", seconds=0.5, host=False)]
        first, _ = layers(calls, steps, groups=[["conv", "relu"]], order=("conv", "relu", "fc"))
        assert (first.name, first.our_seconds) == ("conv + relu", 0.5)

    def test_ops_of_no_module_are_matched_by_their_order(self):
        calls = [Call(item=item, op="", seconds=1.0) for item in ("cat", "cat.2")]
        steps = [
            OurStep(items=(name,), partition=n, name="", implementation="", seconds=n + 1.0, host=False)
            for n, name in enumerate(("cat_1", "cat_5"))
        ]
        assert [row.our_seconds for row in layers(calls, steps, ops=("cat_1", "cat_5"))] == [1.0, 2.0]

    def test_many_are_named_in_short(self):
        assert name_of([f"a.very_long_name_of_a_layer_{n}" for n in range(9)]).endswith("(9 layers)")


class TestThreads:
    @pytest.mark.parametrize(
        ("found", "threads", "runtimes", "wanted"),
        [
            (machine(), 8, (), []),
            (machine(environment={"OMP_NUM_THREADS": "16"}), 16, (), ["too-many-threads"]),
            (machine(quota=2.0), 8, (), ["too-many-threads"]),
            (machine(cores=4), 8, (), ["hyperthreads"]),
            (machine(), 2, (), ["idle-cpus"]),
            (machine(environment={"OMP_THREAD_LIMIT": "2"}), 8, (), ["thread-limit"]),
            (machine(environment={"OMP_WAIT_POLICY": "ACTIVE"}), 8, (), ["active-waiting"]),
            (machine(environment={"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "3000"}), 8, (), []),
            (machine(environment={"OMP_WAIT_POLICY": "passive"}), 8, (), ["passive-waiting"]),
            (machine(environment={"GOMP_SPINCOUNT": "infinite"}), 8, (), ["long-spins"]),
            (machine(environment={"GOMP_SPINCOUNT": "junk"}), 8, (), []),
            (machine(environment={"KMP_BLOCKTIME": "infinite"}), 8, (), ["long-blocktime"]),
            (machine(environment={"KMP_BLOCKTIME": "1"}), 8, (), []),
            (machine(), 8, ("/a/libgomp.so.1", "/b/libiomp5.so"), ["two-openmps"]),
            (machine(), 8, ("/a/libgomp.so.1", "/b/libgomp.so.1"), []),
            (machine(busy=3.0), 8, (), ["busy-machine"]),
            (machine(busy=3.0), 4, (), ["idle-cpus"]),
            (machine(busy=None, cores=None), None, (), []),
        ],
    )
    def test_settings_that_hurt_are_named(self, found, threads, runtimes, wanted):
        made = settings(found, {"in torch": threads, "here": threads}, runtimes)
        assert [one.code for one in made] == wanted
        assert all(one.what and one.why and one.do for one in made)

    @pytest.mark.parametrize(
        ("peer", "ours", "wanted"),
        [
            (8, 16, ["16 threads run here where the process may use 8 CPUs"]),
            (16, 8, ["16 threads run in torch where the process may use 8 CPUs"]),
            (None, 16, ["16 threads run where the process may use 8 CPUs"]),
            (16, None, ["16 threads run where the process may use 8 CPUs"]),
            (16, 16, ["16 threads run where the process may use 8 CPUs"]),
            (1, 8, ["1 thread runs in torch where there are 8 cores"]),
            (1, 16, ["16 threads run here where the process may use 8 CPUs", "1 thread runs in torch where"]),
            (1, 1, ["1 thread runs where there are 8 cores"]),
            (8, None, []),
        ],
    )
    def test_the_threads_of_both_sides_count(self, peer, ours, wanted):
        made = case(peer=Peer(name="torch", threads=peer), ours=Ours(way="from_torch", threads=ours))
        told = [one.what for one in checked(made) if one.severity in ("setting", "note")]
        assert len(told) == len(wanted)
        assert all(one.startswith(begin) for one, begin in zip(told, wanted, strict=True))

    def test_one_thread_is_one(self):
        (busy,) = settings(machine(cpus=1, allowed=1, cores=1, busy=1.0), {"here": 1}, ())
        assert busy.what.endswith("and 1 thread is to run")

    def test_files_of_the_system_are_read(self, tmp_path):
        maps = tmp_path / "maps"
        maps.write_text(
            "7f-8f r-xp 0 0:1 5    /opt/a b/libgomp-a3.so.1\n7f-8f r-xp 0 0:1 5 [heap]\n7f-8f r--p 0 0:1 5 /x/y.so\n"
        )
        assert openmp_files(maps) == ("/opt/a b/libgomp-a3.so.1",)
        assert openmp_files(tmp_path / "none") == ()
        for cpu, siblings in ((0, "0,2"), (1, "1,3"), (2, "0,2")):
            folder = tmp_path / f"cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(siblings)
        assert cores_of([0, 1, 2], tmp_path) == 2
        assert cores_of([0, 9], tmp_path) is None
        assert busy_cpus(0.01) is None or busy_cpus(0.01) >= 0
        assert busy_cpus(0.0, tmp_path / "none") is None
        info = tmp_path / "info"
        info.write_text("processor : 0\nflags : fpu avx512_bf16\n")
        assert has_any(("avx512_bf16",), info)
        assert not has_any(("avx512_fp16",), info)


class TestSubjects:
    def test_files_and_names_are_told_apart(self, tmp_path):
        file = tmp_path / "model.py"
        file.write_text("model = None")
        assert subject_of(str(file)).kind == "torch"
        assert subject_of(f"{file}:make").name == "make"
        named = subject_of("package.models:resnet18")
        assert (named.kind, named.module, named.name) == ("torch", "package.models", "resnet18")
        onnx = tmp_path / "model.onnx"
        onnx.write_bytes(b"\x08\x07\x12\x00")
        assert subject_of(str(onnx)).kind == "onnx"

    @pytest.mark.parametrize("text", ["nothing.py", "nothing", "no file:x y", "a-b:c", "model.py:"])
    def test_what_names_nothing_is_an_error(self, text):
        with pytest.raises(ArgumentError, match="there is no file"):
            subject_of(text)

    def test_a_graph_of_ours_has_other_commands(self, tmp_path):
        file = tmp_path / "graph.json"
        file.write_text("{}")
        with pytest.raises(ArgumentError, match="show, bench and check take"):
            subject_of(str(file))

    def test_shapes_have_types(self):
        assert shapes_of(["x=1x3x8", "ids=s64:1x4", "s="]) == {
            "x": ("", (1, 3, 8)),
            "ids": ("int64", (1, 4)),
            "s": ("", ()),
        }
        for text in ("x", "x=1y3", "x=f7:3", "=3"):
            with pytest.raises(ArgumentError, match="--shape takes"):
                shapes_of([text])

    def test_made_up_numbers_fit_their_type(self):
        import numpy as np

        assert set(np.unique(made_up((99,), np.dtype("int64"), 0))) == {0, 1}
        assert made_up((9,), np.dtype("uint8"), 0).max() > 1
        assert made_up((), np.dtype("float16"), 0).dtype == np.float16


class TestChecks:
    def test_each_check_is_silent_on_a_sound_case(self):
        assert codes(case()) == []
        assert len(CHECKS) == len(set(CHECKS))

    def test_a_slow_convolution_is_named_with_what_ours_would_save(self):
        calls = (
            Call(
                item="conv",
                op="aten.convolution",
                seconds=0.01,
                inside=("aten::slow_conv3d_forward",),
                types=("f64",),
            ),
        )
        step = OurStep(
            items=("conv",), partition=0, name="convolution", implementation="jit", seconds=0.001, host=False
        )
        (found,) = checked(case(calls, (step,)))
        assert (found.code, found.severity, found.layers) == ("slow-path", "slow", ("conv",))
        assert found.gain == pytest.approx(0.009)
        assert "f64" in found.why

    def test_a_reference_loop_is_named(self, onednn):
        ran = primitive(CONV.format(impl="ref:any"))
        calls = (Call(item="conv", op="aten.convolution", seconds=0.01, primitives=(ran,)),)
        assert codes(case(calls)) == ["reference-loop"]

    def test_a_known_kernel_is_a_risk_where_its_numbers_are_right_and_wrong_where_not(self, onednn):
        calls = (Call(item="fc", op="aten.addmm", seconds=0.01, primitives=(primitive(VECTOR),)),)
        plain = case(calls)
        assert [(one.code, one.severity) for one in checked(plain)] == [("known-wrong", "risk")]
        assert "not checked" in checked(plain)[0].what

        def departed(error):
            peer = Peer(
                name="torch", version="2", onednn=(3, 12, 0), isa="avx512_core_bf16", threads=8, calls=calls,
                departures=(Departure(item="fc", op="aten.addmm", error=error, allowed=0.06, data_type="bf16"),),
            )  # fmt: skip
            return checked(case(calls, peer=peer))

        (right,) = departed(0.001)
        assert right.severity == "risk"
        assert "were right on these inputs" in right.what
        wrong = departed(0.9)
        assert {(one.code, one.severity) for one in wrong} == {
            ("known-wrong", "wrong"),
            ("wrong-result", "wrong"),
        }

    def test_the_first_layer_that_departs_is_named(self):
        calls = tuple(Call(item=item, op="aten.mul", seconds=0.01) for item in "abc")
        made = [
            Departure(item=item, op="aten.mul", error=error, allowed=0.02, data_type="f16")
            for item, error in zip("abc", (0.001, float("inf"), float("nan")), strict=True)
        ]
        peer = Peer(name="torch", threads=8, calls=calls, departures=tuple(made))
        (found,) = checked(case(calls, peer=peer))
        assert found.code == "wrong-result"
        assert found.layers == ("b", "c")
        assert "result of b" in found.what
        assert "65504" in found.why

    def test_halves_without_hardware_are_named(self):
        calls = (Call(item="conv", op="aten.convolution", seconds=0.01, types=("bf16",)),)
        assert codes(case(calls)) == []
        assert codes(case(calls, machine=machine(bf16=False))) == ["bf16-without-hardware"]

    def test_most_gain_comes_first_and_what_is_wrong_before_it(self):
        calls = tuple(
            Call(item=name, op="aten.convolution", seconds=seconds, inside=(slow,), types=("f64",))
            for name, seconds, slow in (("a", 0.01, "aten::slow_conv3d"), ("b", 0.09, "aten::slow_conv2d"))
        )
        steps = tuple(
            OurStep(items=(name,), partition=n, name="", implementation="", seconds=0.001, host=False)
            for n, name in enumerate("ab")
        )
        peer = Peer(name="torch", threads=8, calls=calls, whole=0.5)
        found = checked(case(calls, steps, peer=peer))
        assert [(one.code, one.layers) for one in found] == [
            ("wrong-whole", ()),
            ("slow-path", ("b",)),
            ("slow-path", ("a",)),
        ]

    def test_it_is_honest_where_ours_is_slower(self):
        calls = (Call(item="fc", op="aten.addmm", seconds=0.01),)
        steps = (
            OurStep(
                items=("fc",), partition=0, name="matmul", implementation="brg", seconds=0.03, host=False
            ),
        )
        peer = Peer(name="torch", threads=8, calls=calls, timed=Timed(least=0.01, median=0.01, runs=3))
        ours = Ours(way="from_torch", steps=steps, timed=Timed(least=0.03, median=0.03, runs=3))
        assert codes(case(calls, steps, peer=peer, ours=ours)) == ["ours-slower", "ours-slower-whole"]

    def test_a_crash_of_the_peer_is_a_finding(self):
        peer = Peer(name="torch", problem="it crashed by SIGSEGV, while loading it", crashed=True)
        (found,) = checked(case(peer=peer))
        assert (found.code, found.severity) == ("peer-crashes", "wrong")


class TestReport:
    def test_data_are_json_and_text_has_all_findings(self):
        calls = (
            Call(
                item="conv",
                op="aten.convolution",
                seconds=0.01,
                inside=("aten::slow_conv3d",),
                types=("f64",),
            ),
        )
        found = case(calls)
        examined = Examined(case=found, findings=tuple(checked(found)))
        data = json.loads(json.dumps(as_data(examined)))
        assert data["schema"] == 1
        assert data["ok"] is True
        assert data["layers"][0]["peer"]["inside"] == ["aten::slow_conv3d"]
        assert data["findings"][0]["code"] == "slow-path"
        lines, tables = [], []
        print_report(examined, lines.append, lambda *a, **k: tables.append(a), everything=False)
        assert any("slow_conv3d" in line for line in lines)
        assert tables[0][2][0][0] == "conv"


def test_the_command_says_what_makes_no_sense(tmp_path):
    assert "there is no file" in call("doctor", "nothing.py", code=2)
    file = tmp_path / "model.py"
    file.write_text("")
    assert "--shape takes" in call("doctor", file, "--shape", "x=abc", code=2)
    assert "--seconds must be 0 or more" in call("doctor", file, "--seconds", "-1", code=2)


def test_help_says_that_code_is_executed():
    assert "EXECUTED" in call("doctor", "--help")


@pytest.mark.parametrize(
    ("way", "kind", "said"),
    [
        ("from_torch", "torch", 'og.from_torch(module, inputs).compile(tune="measure")'),
        ("torch.compile", "torch", 'mode="max-autotune"'),
        ("from_onnx", "onnx", "onednn-graph tune model.onnx"),
    ],
)
def test_advice_can_be_followed(way, kind, said):
    """`onednn-graph tune` takes files, and a torch module is none."""
    calls = [Call(item="fc", op="", seconds=0.1)]
    ours = Ours(way=way, threads=8, steps=[step(("fc",), 0, 1.0)])
    found = checked(case(calls, ours.steps, ours=ours, subject=Subject(text="m", kind=kind, path="m")))
    (slower,) = [one for one in found if one.code == "ours-slower"]
    assert said in slower.do
    assert ("onednn-graph tune" in slower.do) == (kind == "onnx")
