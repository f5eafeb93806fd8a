"""Every example runs as a user runs it, and prints what it promises."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onednn_graph as og
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
HAS_ONEDNN = og.list_backends()["onednn"] is None


def run(tmp_path, name, *arguments, launcher=(), seconds=120, warns=False):
    result = subprocess.run(
        [*launcher, sys.executable, str(EXAMPLES / name), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ
        | {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},  # layers are small, and tests run side by side
        timeout=seconds,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert warns or not HAS_ONEDNN or "Warning" not in result.stderr
    return result.stdout


GOALS = {
    "train_digits.py": "0.97 of the test images",
    "train_transformer.py": "0.93 of the test images",
    "train_unet.py": "0.97 of the pixels",
    "train_audio.py": "6.5 dB won on new clips",
    "fine_tune.py": "0.93 of the test images",
    "fine_tune_onnx.py": "0.97 of the test images",
}
"""What an example reaches at least, in the words of the guide."""


def goal(name):
    return float(GOALS[name].split()[0])


@pytest.mark.parametrize("name", GOALS)
def test_the_guide_says_what_examples_reach(name):
    rows = (
        (EXAMPLES.parent / "docs" / "pages" / "guides" / "training.md")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    (row,) = [line for line in rows if line.startswith(f"| `examples/{name}` |")]
    assert row.endswith(f"| {GOALS[name]} |")


def numbers(pattern, text):
    return [float(value) for value in re.findall(pattern, text)]


def test_every_example_is_tested():
    tests = Path(__file__).read_text(encoding="utf-8")
    untested = [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tests]
    assert untested == []


def test_getting_started_fits_in_30_lines():
    assert len((EXAMPLES / "getting_started.py").read_text(encoding="utf-8").splitlines()) <= 30


def test_getting_started(tmp_path):
    out = run(tmp_path, "getting_started.py")
    assert "weight gradient: (64, 64, 3, 3) float32" in out
    [difference] = numbers(r"largest difference from NumPy: (\S+)", out)
    assert difference < 1e-5
    if HAS_ONEDNN:
        assert "on onednn" in out
        assert "jit" in out


def test_transposed(tmp_path):
    out = run(tmp_path, "transposed.py")
    assert "(I / groups, O, X): (8, 16, 3, 3) on " in out
    assert "(I, O / groups, X): (32, 4, 3, 3) on " in out
    assert re.findall(r"same gradient in .*: +(\w+)", out) == ["True", "True"]
    left, right = numbers(r"> = (-?[\d.]+)", out)
    assert left == pytest.approx(right, rel=1e-3)
    assert "refused: ConvTransposeBackwardWeights 'dw': 'diff_dst' must have size" in out


def test_legacy(tmp_path):
    out = run(tmp_path, "legacy.py")
    assert "inferred: tensor 'filter_delta' (f32, shape [5, 5, 64, 64])" in out
    assert "ConvolutionBackpropFilters 'conv2' on" in out
    assert "first step: (5, 5, 64, 64) | bound and eager agree: True" in out
    unknown, shape = re.findall(r"refused: (.*)", out)
    assert "unknown attribute 'filters_shape' (did you mean 'filter_shape'?)" in unknown
    assert "'filter_shape' must have I = 64 and O = 64" in shape
    assert "weights" not in unknown + shape  # only the names that the user wrote


def test_custom_op(tmp_path):
    out = run(tmp_path, "custom_op.py")
    assert "SgdStep 'step' on numpy" in out
    assert "the first step is right: True" in out
    assert len(numbers(r"step \d: \|w\| = ([\d.]+)", out)) == 3
    assert "unknown attribute 'momentun' (did you mean 'momentum'?)" in out
    assert "the slope is right: True" in out
    if HAS_ONEDNN:
        assert "partition 0: ConvolutionBackwardWeights 'gradient' on onednn" in out
        assert "partition 1: SgdStep" in out


def test_digits_cnn(tmp_path):
    out = run(tmp_path, "digits_cnn.py", "--epochs", "4", "--out", "curve.png")
    counts = numbers(r"(\d+) weight gradients against", out)
    assert counts == [3 * 3 * 1 * 16, 3 * 3 * 16 * 32]
    assert max(numbers(r"(\S+) in f64", out)) < 1e-6
    assert max(numbers(r"(\S+) in f32", out)) < 1e-4
    losses = numbers(r"loss (\S+),", out)
    assert len(losses) == 4
    assert losses[-1] < 0.2 * losses[0]
    [accuracy] = numbers(r"final test accuracy ([\d.]+)", out)
    assert accuracy > 0.93
    picture = (tmp_path / "curve.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_train_digits(tmp_path):
    out = run(tmp_path, "train_digits.py")
    losses, accuracies = numbers(r"loss (\S+),", out), numbers(r"test accuracy ([\d.]+)", out)
    assert len(losses) == len(accuracies) == 8
    assert losses[-1] < 0.1 * losses[0]
    assert accuracies[-1] >= goal("train_digits.py")


def test_digits_cnn_refuses_zero_epochs(tmp_path):
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / "digits_cnn.py"), "--epochs", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 2
    assert "--epochs must be at least 1" in result.stderr


def test_train_mpi(tmp_path):
    pytest.importorskip("mpi4py", reason="several processes need mpi4py: pip install '.[mpi]'")
    options = ("train_mpi.py", "--epochs", "2")
    alone = run(tmp_path, *options)
    both = run(tmp_path, *options, launcher=(MPIRUN, "-n", "2"))
    assert "1 processes" in alone
    assert "2 processes" in both
    losses = numbers(r"loss (\S+)", alone)
    assert losses[1] < 0.3 * losses[0]
    assert numbers(r"loss (\S+)", both) == pytest.approx(losses, rel=1e-3)
    [accuracy] = numbers(r"test accuracy ([\d.]+)", both)
    assert accuracy > 0.8


def test_train_ray(tmp_path):
    pytest.importorskip("ray.train", reason="worker groups need Ray Train: pip install '.[ray]'")
    pytest.importorskip("torch", reason="workers speak through torch.distributed: pip install '.[ray]'")
    lost, every, steps = 8, 5, 12
    arguments = ("--steps", str(steps), "--every", str(every), "--lose", str(lost), "--folder", str(tmp_path))
    out = run(tmp_path, "train_ray.py", *arguments, seconds=600, warns=True)
    told = [(int(step), float(loss)) for step, loss in re.findall(r"step (\d+): loss (\S+), 2 workers", out)]
    assert [step for step, _ in told] == [*range(lost), *range(every, steps)]
    losses = dict(told)
    assert told[:lost] == [
        (step, losses[step]) for step in range(lost)
    ]  # those that are done again are the same
    more = ("--workers", "1", "--steps", str(steps + 3), "--folder", str(tmp_path))
    again = run(tmp_path, "train_ray.py", *more, seconds=600, warns=True)  # goes on, with fewer workers
    found = [
        (int(step), float(loss)) for step, loss in re.findall(r"step (\d+): loss (\S+), 1 workers", again)
    ]
    assert [step for step, _ in found] == [*range(steps, steps + 3)]
    losses |= dict(found)
    example = runpy.run_path(str(EXAMPLES / "train_ray.py"))
    images, labels = example["digits"]()
    trainer, batch = example["trainer_of"](None), example["BATCH"]
    for step in range(steps + 3):
        drawn = np.random.default_rng(step).permutation(len(images))[:batch]
        assert losses[step] == pytest.approx(
            trainer.step({"x": images[drawn], "labels": labels[drawn]}), rel=1e-4
        )


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG")


def test_train_transformer(tmp_path):
    out = run(tmp_path, "train_transformer.py", "--epochs", "6")
    losses, accuracies = (numbers(pattern, out) for pattern in (r": loss (\S+),", r"test accuracy (\S+)\n"))
    assert losses[-1] < losses[0] / 3
    assert max(accuracies) > goal("train_transformer.py")
    assert is_picture(tmp_path / "transformer.png")


def test_train_unet(tmp_path):
    out = run(tmp_path, "train_unet.py")
    assert numbers(r"(\S+) of the pixels", out)[0] > goal("train_unet.py")
    assert min(numbers(r"overlap of discs (\S+) and", out) + numbers(r"of squares ([\d.]+);", out)) > 0.7
    assert is_picture(tmp_path / "unet.png")


def test_train_audio(tmp_path):
    out = run(tmp_path, "train_audio.py")
    [before] = numbers(r"noise: (\S+) dB before", out)
    [after] = numbers(r"(\S+) dB after", out)
    assert abs(before) < 0.5
    assert after - before > goal("train_audio.py")


def test_fine_tune(tmp_path):
    pytest.importorskip("torch")
    out = run(tmp_path, "fine_tune.py", "--epochs", "3")
    [before] = numbers(r"test accuracy (\S+) before", out)
    [after] = numbers(r"(\S+) after", out)
    assert before < 0.5
    assert after > goal("fine_tune.py")
    assert is_picture(tmp_path / "fine_tune.png")


def test_fine_tune_onnx(tmp_path):
    pytest.importorskip("torch")
    out = run(tmp_path, "fine_tune_onnx.py")
    [[before, after]] = [numbers(r"(0\.\d+|1\.0+)", line) for line in out.splitlines() if "accuracy" in line]
    assert before < 0.5
    assert after >= goal("fine_tune_onnx.py")
    assert is_picture(tmp_path / "fine_tune_onnx.png")


def test_language_model(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    out = run(tmp_path, "language_model.py", "--tokens", "12", warns=True)  # where bf16 is slow it says so
    assert (tmp_path / "language_model.safetensors").exists()
    [same] = re.findall(r"as eager torch's: (\w+), logits differ by \S+", out)
    assert same == "True"
    assert numbers(r"logits differ by (\S+)", out)[0] < 1e-5
    found = re.findall(r"^(\w+): (\S+) deviations at most, bound (\S+);", out, re.MULTILINE)
    assert [name for name, _, _ in found] == ["bf16", "s8", "dynamic", "s4"]
    for _, off, bound in found:
        assert 0 < float(off) < float(bound)


def test_torch_compile_resnet(tmp_path):
    pytest.importorskip("torch")
    out = run(tmp_path, "torch_compile_resnet.py")
    [accuracy] = numbers(r"test accuracy (\S+)", out)
    assert accuracy > 0.85
    roles = re.findall(r"^(\w+): 1 program, compiled in \S+ s; \d+ calls? of \S+ ms$", out, re.MULTILINE)
    assert roles == ["forward", "backward", "inference"]
