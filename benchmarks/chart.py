"""Draws results beside other libraries, for the README and the documentation: `python benchmarks/figures.py` calls it.

Whole models in f32 at batch 1 beside onnxruntime and OpenVINO, and training steps in f32 beside torch, as times of the
others divided by ours, for each kind of machine that has a page of results. The picture holds the numbers it was drawn
from, so that a test can see when it is old.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from result_pages import Machine, whole_machines

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "pages" / "pictures" / "speed.png"
NAMES = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNetV2",
    "vit_b_16": "ViT-B/16",
    "bert_base": "BERT base",
    "unet": "U-Net",
    "convnext_tiny": "ConvNeXt-T",
    "efficientnet_b0": "EfficientNet-B0",
    "yolo": "YOLO",
    "encoder": "Encoder",
    "dcgan": "DCGAN",
}
COLOURS = {"onnxruntime": "#0b6bcb", "OpenVINO": "#7a4cc2", "torch": "#b85c00"}
GREY = "#51565e"

Rows = list[tuple[str, dict[str, float]]]


def numbers(machine: Machine) -> tuple[Rows, Rows]:
    """For each model the times of others ÷ ours: inference, then training, both in f32."""
    inference: Rows = []
    for row in machine.rows("Models, two threads", "model", "ours"):
        if (row["type"], row["batch"]) == ("f32", "1"):
            ours, runtime, openvino = (
                float(row[who].split(" ")[0]) for who in ("ours", "onnxruntime", "openvino")
            )
            inference.append(
                (NAMES[row["model"]], {"onnxruntime": runtime / ours, "OpenVINO": openvino / ours})
            )
    rows = machine.rows("Training steps, two threads", "model", "f32")
    training: Rows = [(NAMES[row["model"]], {"torch": float(row["f32"])}) for row in rows]
    return inference, training


def described(found: Sequence[Machine]) -> str:
    """The numbers as one line of text."""
    return "; ".join(
        f"{machine.name}: {model} {peer} {ratio:.2f}"
        for machine in found
        for rows in numbers(machine)
        for model, peers in rows
        for peer, ratio in peers.items()
    )


def draw(found: Sequence[Machine], path: Path) -> None:
    """Draws the picture, a row for each machine, on white so that it is read on dark pages too."""
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {"font.family": "DejaVu Sans", "font.size": 10, "text.color": GREY, "axes.labelcolor": GREY}
    )
    high = 4.1 * len(found)
    figure, all_axes = pyplot.subplots(len(found), 2, figsize=(10, high), facecolor="white", squeeze=False)
    for axes, machine in zip(all_axes, found, strict=True):
        titles = (f"{machine.name}: inference, f32, batch 1", "a training step, f32")
        for axis, rows, title in zip(axes, numbers(machine), titles, strict=True):
            _bars(axis, rows, title)
    figure.tight_layout(w_pad=3, h_pad=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Description": described(found), "Software": None})


def _bars(axis: Any, rows: Rows, title: str) -> None:
    peers = list(rows[0][1])
    height = 0.74 / len(peers)
    for place, (_, ratios) in enumerate(reversed(rows)):
        for number, peer in enumerate(reversed(peers)):
            where = place + (number - (len(peers) - 1) / 2) * height
            axis.barh(where, ratios[peer], height * 0.9, color=COLOURS[peer])
            axis.text(max(ratios[peer], 1) + 0.02, where, f"{ratios[peer]:.2f}", va="center", fontsize=8)
            if place == len(rows) - 1:
                axis.text(0.03, where, peer, va="center", fontsize=8, color="white")
    axis.plot([1, 1], [-0.6, len(rows) - 0.5], color="#22262c", linewidth=1)
    axis.text(1, len(rows) - 0.42, "onednn_graph = 1", ha="center", va="bottom", fontsize=8)
    axis.set_yticks(range(len(rows)), [model for model, _ in reversed(rows)])
    axis.set_ylim(-0.6, len(rows))
    axis.set_title(title, fontsize=11, fontweight="bold", loc="left", pad=12, color="#22262c")
    axis.set_xlim(0, max(max(r.values()) for _, r in rows) * 1.12)
    axis.set_xlabel("time of the other ÷ ours; above 1 we are faster", fontsize=9)
    axis.tick_params(length=0, colors=GREY)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)


def main() -> None:
    draw(whole_machines(), PICTURE)


if __name__ == "__main__":
    main()
