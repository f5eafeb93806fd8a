"""How commands end, as a shell sees it: interrupts, closed pipes, full disks, and what standard input is."""

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from subprocess import PIPE

import numpy as np
import onednn_graph as og
import processes
import pytest
from processes import PATIENCE

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from onednn_graph.tools.ending import OF_NAMES, Ended, Exit, told

COMMAND = ["-m", "onednn_graph"]
"""What follows `python`."""


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Nothing is remembered."""
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def file(tmp_path):
    """A matrix product with weights that are not in the file."""
    graph = og.Graph()
    w = graph.input("w", "f32", [4, 8], property_type="constant")
    graph.relu(graph.matmul(graph.input("x", "f32", [2, 4]), w), name="y")
    path = tmp_path / "graph.json"
    graph.save(path)
    return path


@pytest.fixture
def onnx_file(tmp_path):
    """A convolution with its weights."""
    onnx = pytest.importorskip("onnx")
    w = onnx.numpy_helper.from_array(np.arange(72, dtype=np.float32).reshape(4, 2, 3, 3) % 5 - 2, "w")
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["c"]), onnx.helper.make_node("Relu", ["c"], ["y"])]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["batch", 2, 8, 8]), ("y", None))
    ]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], [w])
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    return path


def call(*arguments, code=0, stdin=b""):
    done = processes.run([*COMMAND, *arguments], input=stdin)
    told = done.stderr.decode()
    assert done.returncode == code, done.stdout.decode() + told
    assert "Traceback" not in told
    return done.stdout.decode() if code == 0 else told


# --- Ctrl-C ---------------------------------------------------------------------------------------------

LONG = 3600
INTERRUPTED = {
    "bench": ["bench", "GRAPH", "--seconds", str(LONG), "--no-peak"],
    "compare": ["compare", "GRAPH", "--seconds", str(LONG)],
    "tune": ["tune", "GRADIENT", "--seconds", str(LONG)],
    "run in one kernel": ["run", "LARGE", "--backend", "numpy"],
    "check": ["check", *["CHAIN"] * 10_000],
    "show": ["show", "MANY"],
    "standard input": ["show", "-"],
}
"""Command lines that would take an hour, or a kernel of the library that takes long."""


def write(name, folder):
    graph = og.Graph()
    if name == "GRADIENT":
        x, dy = graph.input("x", "f32", [16, 56, 56, 64]), graph.input("dy", "f32", [16, 56, 56, 64])
        ends = {"pads_begin": [1, 1], "pads_end": [1, 1], "strides": [1, 1], "dilations": [1, 1]}
        graph.op("ConvolutionBackwardWeights", x, dy, weights_shape=[3, 3, 64, 64], **ends)
    elif name == "LARGE":  # sorts out nothing between the first and the last of its products
        a, b = (graph.input(n, "f32", [9000, 9000]) for n in "ab")
        graph.matmul(a, b)
    else:
        y = graph.input("x", "f32", [8, 64])
        for number in range({"CHAIN": 3, "MANY": 4000}.get(name, 1)):
            y = graph.relu(y) if number % 2 else graph.matmul(y, graph.input(f"w{number}", "f32", [64, 64]))
    path = folder / f"{name}.json"
    graph.save(path)
    return path


@pytest.mark.parametrize("arguments", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_interrupt_ends_the_command(arguments, tmp_path):
    made = {}
    line = [
        made.setdefault(a, made.get(a) or str(write(a, tmp_path))) if a.isupper() else a for a in arguments
    ]
    with (
        processes.start([*COMMAND, *line], stdin=PIPE, stderr=PIPE, start_new_session=True) as process,
    ):
        wait_until_it_works(process)
        time.sleep(0.5)
        assert process.poll() is None, "it ended by itself"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        code = process.wait(PATIENCE)
        said = process.stderr.read().decode()
    assert code in (130, -signal.SIGINT), said  # the latter while it is imported still: 130 in a shell
    assert "Traceback" not in said
    assert "ignored" not in said


FINALIZED = """
import os, signal
from onednn_graph.tools import ending

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass

def app():
    Dying()
    signal.pause()

ending.run_to_end(app)
"""


def test_an_interrupt_in_a_finalizer_ends_the_process_in_silence():
    done = processes.run(["-c", FINALIZED])
    assert (done.returncode, done.stderr) == (130, b"")


def wait_until_it_works(process):
    """Interrupts are heard, through a pair of sockets."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            files = f"/proc/{process.pid}/fd"
            if sum(os.readlink(f"{files}/{one}").startswith("socket") for one in os.listdir(files)) >= 2:
                return
        time.sleep(0.05)
    raise AssertionError(f"it did not begin: {process.poll()}")


SCRIPT = "import sys\nfrom onednn_graph.tools import main\nsys.exit(main())\n"


@pytest.mark.parametrize("how", ["module", "script", "library"])
def test_an_interrupt_while_the_command_is_imported(how, tmp_path):
    """The shell reads 130 of a process that SIGINT has ended; an import by others is interrupted as ever."""
    (tmp_path / "ml_dtypes.py").write_text("import time\nprint('on the way', flush=True)\ntime.sleep(100)\n")
    (tmp_path / "onednn-graph").write_text(SCRIPT)
    arguments = {
        "module": ["-m", "onednn_graph", "info"],
        "script": [str(tmp_path / "onednn-graph"), "info"],
        "library": ["-c", "import onednn_graph"],
    }[how]
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on the way\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert said.endswith("KeyboardInterrupt\n") if how == "library" else not said


def test_an_interrupt_that_is_lost_ends_the_process_all_the_same():
    """Where Python does not come to raise it: in a call of C, or where a finalizer swallows it."""
    script = (
        "import ctypes, threading\n"
        "from onednn_graph.tools import ending\n"
        "def app():\n"
        "    print('begun', flush=True)\n"
        "    while True:\n"
        "        try: ctypes.PyDLL(None).getpid(); ctypes.CDLL(None).sleep(3600)\n"
        "        except BaseException: pass\n"
        "ending.run_to_end(app)"
    )
    with processes.start(["-c", script], stdout=PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


# --- pipes and disks ------------------------------------------------------------------------------------


CLOSED = [
    ["ops"],
    ["ops", "--json"],
    ["--help"],
    ["--version"],
    ["show", "--help"],
    ["show", "FILE"],
    ["check", "FILE"],
]


@pytest.mark.parametrize("arguments", CLOSED, ids=" ".join)
def test_a_closed_pipe_is_silent(arguments, file):
    line = [str(file) if a == "FILE" else a for a in arguments]
    read, written = os.pipe()
    with processes.start([*COMMAND, *line], stdout=written, stderr=PIPE) as process:
        os.close(written)
        os.close(read)
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


def test_what_fits_into_a_pipe_is_written(file):
    """As the guide says of 141."""
    read, written = os.pipe()
    with processes.start([*COMMAND, "ops"], stdout=written, stderr=PIPE) as process:
        os.close(written)
        assert process.wait(PATIENCE) == 0
    with open(read, "rb") as pipe:
        assert len(pipe.read()) < 65536


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["ops"], ["ops", "--json"], ["show", "FILE"], ["check", "FILE"]])
def test_a_full_disk_is_a_line(arguments, file):
    line = [str(file) if a == "FILE" else a for a in arguments]
    with open("/dev/full", "w") as full:
        done = processes.run([*COMMAND, *line], stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert "the output can't be written: No space left on device" in done.stderr.decode()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [["run", "--outputs"], ["run", "--trace"], ["show", "--html"], ["show", "--dot"], ["compile", "-o"]],
    ids=" ".join,
)
def test_a_full_disk_under_a_file_is_a_line(arguments, file):
    said = call(arguments[0], file, arguments[1], "/dev/full", code=1)
    lines = [line for line in said.splitlines() if "made up" not in line]
    assert len(lines) == 1
    assert "No space left" in lines[0]


@pytest.mark.parametrize(
    ("number", "code"),
    [(number, Exit.usage) for number in OF_NAMES]
    + [
        (number, Exit.failed) for number in (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EDQUOT, errno.EROFS)
    ],
    ids=errno.errorcode.get,
)
def test_what_a_file_does_is_no_mistake_of_the_command_line(number, code):
    with pytest.raises(Ended, match="^a name: can't be used: ") as caught, told():
        raise OSError(number, os.strerror(number), "a name")
    assert caught.value.code is code


def test_missing_memory_is_a_line(tmp_path):
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [1 << 20, 1 << 20, 4]))
    graph.save(tmp_path / "g.json")
    said = call("run", tmp_path / "g.json", code=1)
    assert "memory" in said
    assert len([line for line in said.splitlines() if "made up" not in line]) == 1


@pytest.mark.parametrize("command", ["run", "bench", "compare"])
def test_a_seed_is_no_negative_number(command, file):
    assert "'--seed'" in call(command, file, "--seed", "-1", code=2)


def test_a_seed_of_check_is_none_either(file):
    assert "0 or more" in call("check", "--seed=-1", file, code=2)


def test_the_version():
    from importlib.metadata import version

    assert call("--version") == f"onednn-graph {version('onednn-graph')}\n"


def test_choices_are_in_the_help():
    text = " ".join(call("show", "--help").split())
    names = [name for name in og.list_backends() if name in ("onednn", "numpy", "native")]
    assert "|".join(names) in text
    assert len(names) == 3


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show", "run", "bench", "compare", "tune", "check"])
@pytest.mark.parametrize("kind", ["json", "onnx"])
def test_standard_input_and_pipes_are_told_apart_by_content(command, kind, file, onnx_file, tmp_path):
    content = (file if kind == "json" else onnx_file).read_bytes()
    more = {"bench": ["--seconds", "0.01", "--no-peak"], "compare": ["--seconds", "0.01"]}.get(command, [])
    more += ["--seconds", "0.01"] if command == "tune" else []
    if command == "check":
        call(command, *(["--mb=1,2"] if kind == "json" else ["--in-shapes=0:1x2x8x8"]), "-", stdin=content)
        return
    if kind == "onnx":
        more += ["--shape", "x=1x2x8x8"]
    told = call(command, "-", *more, "--json", stdin=content)
    assert json.loads(told)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not here")
def test_process_substitution(file):
    run = " ".join([sys.executable, *COMMAND])
    script = (
        f"{run} check --batch=<(echo --mb=1,2 {file}) && {run} show <(cat {file}) && "
        f"{run} check --mb=1,3 <(cat {file})"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, timeout=PATIENCE, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed:2") == 2


def test_a_batch_on_standard_input(file):
    assert "passed:2" in call("check", "--batch=-", stdin=f"--mb=1,2 {file} # twice".encode())
    assert "must be UTF-8" in call("check", "--batch=-", stdin=b"\xff\xfe", code=2)


@pytest.mark.parametrize("content", [b"", b"{", b"\x08\x07\x12", b"[]", b"\xff\xfe{\x00"])
def test_neither_json_nor_onnx_is_a_line(content):
    assert call("show", "-", code=2, stdin=content).count("\n") == 1


def test_a_file_is_what_it_holds_and_not_what_it_is_called(file, onnx_file, tmp_path):
    shutil.copy(onnx_file, tmp_path / "a.json")
    shutil.copy(file, tmp_path / "b.onnx")
    assert "Convolution" in call("show", tmp_path / "a.json")
    assert "MatMul" in call("show", tmp_path / "b.onnx")


def test_open_sizes_are_asked_for_and_come_from_arrays(onnx_file, tmp_path):
    assert "--shape" in call("run", onnx_file, code=2)
    assert "--shape" in call("run", onnx_file, "--shape", "x:1", code=2)
    np.savez(tmp_path / "in.npz", x=np.ones((3, 2, 8, 8), np.float32))
    call("run", onnx_file, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        expected = (np.arange(72).reshape(4, 2, 3, 3) % 5 - 2).sum((1, 2, 3)).clip(0)
        np.testing.assert_array_equal(out["y"], np.broadcast_to(expected[:, None, None], (3, 4, 6, 6)))


def test_made_up_weights_are_told_of(file, tmp_path):
    done = processes.run([*COMMAND, "run", file, "--seed", "3"])
    assert done.returncode == 0
    assert "made up from seed 3: weights w; inputs x" in done.stderr.decode()
    np.savez(tmp_path / "in.npz", **{"1": np.ones((2, 4), np.float32), "0": np.ones((4, 8), np.float32)})
    done = processes.run([*COMMAND, "run", file, "--inputs", tmp_path / "in.npz"])
    assert (done.returncode, done.stderr) == (0, b"")


# --- on a terminal --------------------------------------------------------------------------------------


def on_terminal(arguments, columns=60):
    """What a terminal shows."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    # What readline has put into the environment, COLUMNS, is only seen below Python.
    with processes.start(
        [*COMMAND, *arguments], stdout=follower, stderr=follower, env=dict(os.environ)
    ) as process:
        os.close(follower)
        shown = b""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if not select.select([leader], [], [], 1.0)[0]:
                continue
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # Linux's end of a terminal
                break
            if not part:
                break
            shown += part
        assert process.wait(PATIENCE) == 0
    os.close(leader)
    return shown.decode()


WORDS = {
    "show": ["MatMul", "partition", "weights=w", "constant"],
    "ops": ["ConvTransposeBackwardWeights", "BatchNormTrainingBackward", "normalization"],
    "info": ["onednn-graph", "instruction"],
}


@pytest.mark.parametrize("command", WORDS)
def test_tables_can_be_read_at_sixty_columns(command, file):
    lines = re.sub(r"\x1b\[[0-9;?]*\w", "", on_terminal([command, *([file] if command == "show" else [])]))
    for word in WORDS[command]:
        assert word in lines, word  # on one line, in one piece
    assert max(len(line.rstrip("\r")) for line in lines.split("\n")) <= 60


def test_a_large_graph_is_shown_in_part(tmp_path):
    path = tmp_path / "graph.json"
    graph = og.Graph()
    y = graph.input("x", "f32", [2])
    for _ in range(300):
        y = graph.relu(y)
    graph.save(path)
    lines = call("show", path).splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) <= 120
    assert any("260 more; --all shows them" in line for line in lines)
    assert call("show", path, "--all").count(" ReLU ") >= 300


def test_long_work_says_how_far_it_is(tmp_path, file):
    script = (
        "import time\n"
        "from onednn_graph.tools import console\n"
        "with console.working('timing'): time.sleep(2.5)\n"
    )
    leader, follower = pty.openpty()
    with processes.start(["-c", script], stderr=follower) as process:
        assert process.wait() == 0
    os.close(follower)
    shown = os.read(leader, 4096).decode()
    os.close(leader)
    assert "timing 1 s" in shown
    assert shown.endswith("\r\x1b[K")


def test_a_warning_is_a_line():
    """Without the file and line of what calls commands."""
    script = (
        "import warnings\n"
        "import onednn_graph as og\n"
        "from onednn_graph.tools import ending\n"
        "def app():\n"
        "    warnings.warn('so it is\\nslower', og.errors.SlowTypeWarning, stacklevel=1)\n"
        "ending.run_to_end(app)"
    )
    done = processes.run(["-c", script])
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode() == "onednn-graph: so it is slower\n"
