"""Draws the numbers of RESULTS.md beside other libraries, for the README and the documentation.

    python benchmarks/chart.py     # writes docs/pages/pictures/speed.png

Whole models in f32 at batch 1 beside onnxruntime and OpenVINO, and training steps in f32 beside torch, as times of the
others divided by ours. The picture holds the numbers it was drawn from, so that a test can see when it is old.
"""

from __future__ import annotations

from pathlib import Path

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


def section(text: str, title: str) -> str:
    """What stands under a heading of RESULTS.md."""
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def cells(text: str) -> list[list[str]]:
    """The rows of the tables in a text."""
    return [
        [c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]


def numbers(results: str) -> tuple[Rows, Rows]:
    """For each model the times of others ÷ ours: inference, then training, both in f32."""
    inference: Rows = []
    for row in cells(section(results, "Models, two threads")):
        if row[1:3] == ["f32", "1"]:
            ours, runtime, openvino = (float(cell.split(" ")[0]) for cell in row[3:6])
            inference.append((NAMES[row[0]], {"onnxruntime": runtime / ours, "OpenVINO": openvino / ours}))
    training: Rows = []
    for row in cells(section(results, "Training steps, two threads")):
        if row[0] in NAMES:
            training.append((NAMES[row[0]], {"torch": float(row[1])}))
    return inference, training


def described(results: str) -> str:
    """The numbers as one line of text."""
    return "; ".join(
        f"{model} {peer} {ratio:.2f}"
        for rows in numbers(results)
        for model, peers in rows
        for peer, ratio in peers.items()
    )


def draw(results: str, path: Path) -> None:
    """Draws the picture, on white so that it is read on dark pages too."""
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {"font.family": "DejaVu Sans", "font.size": 10, "text.color": GREY, "axes.labelcolor": GREY}
    )
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.1), facecolor="white")
    titles = ("Inference, f32, batch 1", "A training step, f32")
    for axis, rows, title in zip(axes, numbers(results), titles, strict=True):
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
    figure.tight_layout(w_pad=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Description": described(results), "Software": None})


if __name__ == "__main__":
    draw((ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"), PICTURE)
