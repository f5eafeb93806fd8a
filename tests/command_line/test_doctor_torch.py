"""`onednn-graph doctor` on torch modules: run by torch and by ours, in processes of their own."""

import json

import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("torch", reason="the subjects are torch modules")

import torch
from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have
from onednn_graph.tools.doctor.examination import Options, examine
from onednn_graph.tools.doctor.subjects import subject_of
from onednn_graph.tools.doctor.torch_calls import departures, timed_ops, traced
from onednn_graph.tools.doctor.torch_subject import TorchSubject, fingerprint, load_torch
from onednn_graph.tools.doctor.worker import Worker

HEAD = "import torch\nfrom torch import nn\n"


def written(tmp_path, text, name="subject.py"):
    file = tmp_path / name
    file.write_text(HEAD + text)
    return file


def examined(file, *more):
    """What `--json` says, quickly."""
    return json.loads(call("doctor", file, "--json", "--seconds", "0.05", "--threads", "1", *more))


def subject(module, *args):
    return TorchSubject(torch=torch, module=module.eval(), args=args, kwargs={})


def task(file, **more):
    return subject_of(str(file)).task(**{"inputs": "", "shapes": [], "seed": 0, "threads": None, **more})


class TestWhole:
    def test_a_model_with_a_slow_layer(self, tmp_path):
        file = written(
            tmp_path,
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.up = nn.ConvTranspose3d(3, 4, 3, dilation=2)\n"
            "        self.act = nn.ReLU()\n"
            "        self.fc = nn.Linear(4, 5)\n"
            "    def forward(self, x):\n"
            "        print('printed by the model')\n"
            "        return self.fc(self.act(self.up(x)).mean((2, 3, 4)))\n"
            "def factory():\n"
            "    return Net(), (torch.randn(1, 3, 5, 5, 5),)\n",
        )
        data = examined(file)
        assert data["ok"]
        assert (data["peer"]["name"], data["ours"]["way"]) == ("torch", "from_torch")
        assert data["peer"]["error"] < 1e-5
        assert data["ours"]["error"] < 1e-5
        rows = {row["name"]: row for row in data["layers"]}
        slow = rows["up + act"]
        assert "aten::slow_conv_transpose3d" in slow["peer"]["inside"]
        assert slow["peer"]["seconds"] > 0
        assert slow["ours"]["seconds"] > 0
        assert rows["fc"]["ours"]["kernels"]
        (found,) = [one for one in data["findings"] if one["code"] == "slow-path"]
        assert found["layers"] == ["up + act"]
        assert "slow_conv_transpose3d" in found["what"]

    def test_f16_that_overflows_is_wrong_where_it_comes_first(self, tmp_path):
        file = written(
            tmp_path,
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.conv = nn.Conv2d(8, 8, 3)\n"
            "        self.fc = nn.Linear(8, 4)\n"
            "    def forward(self, x):\n"
            "        y = self.conv(x)\n"
            "        return self.fc((y * 30000).mean((2, 3)))\n"
            "model = Net().half()\n"
            "inputs = 8 * torch.randn(1, 8, 8, 8).half()\n",
        )
        data = json.loads(_failed("doctor", file, "--json", "--seconds", "0", "--threads", "1"))
        assert not data["ok"]
        first = data["findings"][0]
        assert (first["code"], first["severity"]) == ("wrong-result", "wrong")
        assert "result of mul" in first["what"]
        assert "65504" in first["why"]
        if torch.ops.mkldnn._is_mkldnn_fp16_supported():
            return  # torch multiplies halves by oneDNN here
        assert "slow-path" in [one["code"] for one in data["findings"]]
        assert any("aten::_slow_conv2d_forward" in row["peer"]["inside"] for row in data["layers"])

    def test_a_crash_of_torch_is_reported_and_is_not_ours(self, tmp_path):
        file = written(
            tmp_path,
            "import os, signal\n"
            "class Net(nn.Module):\n"
            "    def forward(self, x):\n"
            "        if not torch.compiler.is_compiling():\n"
            "            os.kill(os.getpid(), signal.SIGSEGV)\n"
            "        return torch.relu(x)\n"
            "model, inputs = Net(), torch.ones(3)\n",
        )
        data = json.loads(_failed("doctor", file, "--json", "--seconds", "0.05", "--threads", "1"))
        assert data["peer"]["crashed"]
        assert "SIGSEGV" in data["peer"]["problem"]
        assert data["ours"]["problem"] is None
        assert "peer-crashes" in [one["code"] for one in data["findings"]]

    def test_what_is_not_imported_runs_by_torch_compile(self, tmp_path):
        file = written(
            tmp_path,
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.fc = nn.Linear(4, 4)\n"
            "    def forward(self, x):\n"
            "        return self.fc(x) if float(x.sum()) > 0 else x\n"
            "model, inputs = Net(), torch.ones(2, 4)\n",
        )
        data = examined(file)
        assert data["ours"]["way"] == "torch.compile"
        assert data["ours"]["error"] < 1e-5
        assert any("from_torch can't import it" in note for note in data["ours"]["notes"])

    def test_the_text_names_layers_and_what_to_do(self, tmp_path):
        file = written(tmp_path, "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())\n")
        text = call("doctor", file, "--shape", "input=2x4", "--seconds", "0.05", "--threads", "1")
        assert "made up: input" in text
        assert "0 + 1" in text
        assert "findings:" in text


def _failed(*arguments):
    """The output of a command that ends with 1."""
    from onednn_graph.tools.cli import app
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 1, result.output
    return result.stdout


class TestSubjects:
    def test_usual_names_and_inputs(self, tmp_path):
        texts = {
            "model = nn.Linear(3, 2)\ninputs = torch.ones(1, 3)": 1,
            "net = nn.Linear(3, 2)\nexample_inputs = (torch.ones(1, 3),)": 1,
            "model = nn.Linear(3, 2)\ndef inputs():\n    return {'input': torch.ones(1, 3)}": 0,
            "def make_model():\n    return nn.Linear(3, 2), (torch.ones(1, 3),)": 1,
            "something = nn.Linear(3, 2)\ninputs = torch.ones(1, 3)": 1,
        }
        for number, (text, positional) in enumerate(texts.items()):
            made = load_torch(task(written(tmp_path, text, f"m{number}.py")))
            assert len(made.args) == positional
            assert made.run().shape == (1, 2)
            assert not made.module.training

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("x = 1", "has none of model"),
            ("model = nn.Linear(3, 2)", "has no inputs"),
            ("model = 1/0", "can't be executed: ZeroDivisionError: division by zero, in line 3"),
            ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
            ("def factory(): return 5", "must return a torch.nn.Module"),
            ("def factory(x): return x", "can't be called"),
            ("import sys\nsys.exit(3)", "can't be executed: SystemExit"),
        ],
    )
    def test_what_is_no_subject_is_a_usage_error(self, tmp_path, text, says):
        assert says in call("doctor", written(tmp_path, text), "--seconds", "0", code=2)

    def test_inputs_of_a_file_go_by_name_or_order(self, tmp_path):
        import numpy as np

        file = written(tmp_path, "model = nn.Bilinear(2, 3, 4)\n")
        a, b = np.ones((5, 2), "f"), np.zeros((5, 3), "f")
        np.savez(tmp_path / "named.npz", input2=b, input1=a)
        np.savez(tmp_path / "ordered.npz", a, b)
        for name in ("named.npz", "ordered.npz"):
            made = load_torch(task(file, inputs=str(tmp_path / name)))
            assert made.run().shape == (5, 4)
        np.savez(tmp_path / "other.npz", other=a)
        message = call("doctor", file, "--inputs", tmp_path / "other.npz", code=2)
        assert "has no input 'other'" in message

    def test_made_up_inputs_have_the_model_s_type(self, tmp_path):
        file = written(tmp_path, "model = nn.Embedding(2, 3).bfloat16()\nother = nn.Linear(3, 2).half()\n")
        made = load_torch(task(file, shapes=["input=s64:1x4"]))
        assert made.args[0].dtype == torch.int64
        made = load_torch(task(f"{file}:other", shapes=["input=1x3"]))
        assert made.args[0].dtype == torch.float16

    def test_other_weights_have_another_fingerprint(self):
        one = subject(torch.nn.Linear(3, 2), torch.ones(1, 3))
        other = subject(torch.nn.Linear(3, 2), torch.ones(1, 3))
        assert fingerprint(one) != fingerprint(other)
        assert fingerprint(one) == fingerprint(one)


class TestCalls:
    def test_ops_have_their_modules_and_calls_their_numbers(self, tmp_path):
        relu = torch.nn.ReLU()
        module = torch.nn.Sequential(torch.nn.Linear(3, 3), relu, torch.nn.Linear(3, 3), relu)
        made = timed_ops(subject(module, torch.ones(1, 3)), 2)
        assert [(path, op) for path, op, _ in made] == [
            ("0", "aten.addmm"),
            ("1", "aten.relu"),
            ("2", "aten.addmm"),
            ("1.2", "aten.relu"),
        ]
        assert all(seconds > 0 for _, _, seconds in made)

    def test_an_op_that_is_wrong_is_found_by_its_own_inputs(self):
        class Wrong(torch.nn.Module):
            def forward(self, x):
                y = x.half() * 60000  # overflows there and not later
                return torch.clamp(y, max=1.0) + x.half()

        found, unchecked = departures(subject(Wrong(), torch.full((4,), 2.0)), 60)
        assert [(one.op, one.is_wrong) for one in found] == [
            ("aten.mul.Tensor", True),
            ("aten.clamp", False),
            ("aten.add.Tensor", False),
        ]
        assert unchecked == ""

    def test_ops_in_place_are_compared_on_what_they_got(self):
        class InPlace(torch.nn.Module):
            def forward(self, x):
                y = x + 1
                y.mul_(3).relu_()
                return y

        found, _ = departures(subject(InPlace(), torch.randn(8)), 60)
        assert [one.op for one in found] == ["aten.add.Tensor", "aten.mul_.Tensor", "aten.relu_"]
        assert not any(one.is_wrong for one in found)

    def test_time_is_bounded(self):
        found, unchecked = departures(subject(torch.nn.Linear(3, 3), torch.ones(1, 3)), 0.0)
        assert found == []
        assert "time was over" in unchecked

    def test_primitives_come_from_what_the_library_prints(self, tmp_path):
        file = written(tmp_path, "model = nn.Conv2d(16, 32, 3)\ninputs = torch.randn(4, 16, 32, 32)\n")
        with Worker("torch", tmp_path / "w", task(file)) as worker:
            assert worker.ask("load", 100) is not None
            told = worker.ask("trace", 100)
        if not torch.backends.mkldnn.is_available():
            pytest.skip("this torch has no oneDNN")
        assert told["onednn"] >= (2,)
        (conv,) = told["calls"]
        assert conv.op == "aten.convolution"
        assert "convolution" in [one.kind for one in conv.primitives]


class TestWorker:
    def test_a_stage_without_end_is_stopped(self, tmp_path):
        file = written(tmp_path, "import time\ntime.sleep(600)")
        with Worker("torch", tmp_path / "w", task(file)) as worker:
            assert worker.ask("load", 8) is None
            assert worker.mishap.late
            assert "while loading it" in worker.mishap.text
            assert not worker.alive
            assert worker.ask("first", 8) is None

    def test_what_is_printed_and_read_does_not_disturb(self, tmp_path):
        file = written(
            tmp_path,
            "import os\nprint('{')\nos.write(1, b'garbage\\n')\n"
            "try:\n    input()\nexcept EOFError:\n    pass\n"
            "model, inputs = nn.ReLU(), torch.ones(2)\n",
        )
        with Worker("torch", tmp_path / "w", task(file)) as worker:
            assert worker.ask("load", 100)["made_up"] == ()
            assert worker.ask("nothing", 100) is None
            assert "AttributeError" in worker.mishap.text
            assert worker.ask("first", 100)["threads"] >= 1

    def test_an_exit_in_the_model_is_told(self, tmp_path):
        file = written(tmp_path, "import os\nos._exit(7)")
        made = examine(subject_of(str(file)), Options(seconds=0.0), lambda case: ())
        assert "exit code 7, while loading it" in made.case.peer.problem
        assert made.case.ours.problem


def test_nothing_is_traced_where_nothing_runs(tmp_path):
    (tmp_path / "printed").write_text("")
    calls, about = traced(subject(torch.nn.Identity(), torch.ones(2)), tmp_path / "printed")
    assert calls == []
    assert about.version is None


class TestOneModule:
    @pytest.mark.parametrize(
        "text",
        [
            "model = nn.Linear(4, 5)\ninputs = torch.randn(2, 4)\n",
            "class Model(nn.Module):\n"
            "    def forward(self, x):\n"
            "        return torch.softmax(torch.relu(x @ x.T), 1)\n"
            "model, inputs = Model(), torch.randn(3, 3)\n",
        ],
        ids=["a layer", "functions"],
    )
    def test_it_is_one_row_with_both_sides(self, tmp_path, text):
        data = examined(written(tmp_path, text))
        (row,) = data["layers"]
        assert row["name"] in ("Linear", "Model")
        assert row["peer"]["seconds"] > 0
        assert row["ours"]["seconds"] > 0
        assert row["ours"]["kernels"]

    def test_programs_of_torch_compile_have_their_kernels(self, tmp_path):
        data = examined(
            written(
                tmp_path,
                "class Net(nn.Module):\n"
                "    def __init__(self):\n"
                "        super().__init__()\n"
                "        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)\n"
                "    def forward(self, x):\n"
                "        y = self.a(x)\n"
                "        return self.b(y * 2 if y.sum().item() > 0 else y)\n"
                "model, inputs = Net(), torch.randn(2, 4)\n",
            )
        )
        assert data["ours"]["way"] == "torch.compile"
        (row,) = [row for row in data["layers"] if row["ours"]["kernels"]]
        assert row["ours"]["seconds"] > 0
        assert "MatMul" in row["name"]

    @pytest.mark.parametrize("shape", ["(8, 65)", "(64,), dtype=torch.int64"])
    def test_inputs_that_do_not_fit_are_a_usage_error(self, tmp_path, shape):
        make = "ones" if "int64" in shape else "randn"
        file = written(tmp_path, f"model, inputs = nn.Linear(64, 3), torch.{make}({shape})\n")
        said = call("doctor", file, "--seconds", "0", code=2)
        assert "subject.py can't be called with its inputs: RuntimeError: " in said
        assert said.count("\n") == 1
