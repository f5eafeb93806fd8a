"""What training says of batches that don't fit: lengths, axes, what has no names, what is no sequence of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onednn_graph as og
import pytest

T = og.training
IMAGES = np.ones((6, 1, 4, 4), np.float32)
LABELS = np.array([0, 1, 2, 2, 1, 0])
FEEDS = {"image": IMAGES, "labels": LABELS}
BUILDERS = ["built", "batch of six", "torch", "torch, open", "regression"]
RUNS: list[Callable[[T.Trainer, Any], Any]] = [
    T.Trainer.step,
    T.Trainer.evaluate,
    lambda trainer, feeds: trainer.fit([feeds]),
    lambda trainer, feeds: trainer.fit(T.FromTorch([tuple(feeds.values())], list(feeds))),
    lambda trainer, feeds: trainer.fit([FEEDS], validation=[feeds]),
    lambda trainer, feeds: trainer.validate([feeds]),
]
RUN_NAMES = ["step", "evaluate", "fit", "fit(FromTorch)", "fit(validation)", "validate"]


def trainer_of(which: str, **options: Any) -> T.Trainer:
    def loss(graph: og.Graph) -> og.LogicalTensor:
        labels = graph.input("labels", "s64", [6 if which == "batch of six" else -1])
        return T.cross_entropy(graph, graph.outputs[0], labels)

    if which.startswith("torch"):
        torch = pytest.importorskip("torch")

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = torch.nn.Sequential(
                    torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
                )

            def forward(self, image: Any) -> Any:
                return self.layers(image)

        sizes: Any = ({0: torch.export.Dim("batch")},) if which == "torch, open" else None
        model = og.from_torch(Net(), (torch.ones(6, 1, 4, 4),), training=True, dynamic_shapes=sizes)
        return T.Trainer(model, loss, T.SGD(0.1), **options)
    graph = og.Graph()
    image = graph.input("image", "f32", [6 if which == "batch of six" else -1, 1, 4, 4])
    w = graph.parameter(np.full((16, 3), 0.1, np.float32), name="w")
    found = graph.output(graph.matmul(graph.static_reshape(image, shape=[-1, 16], special_zero=False), w))
    if which == "regression":
        return T.Trainer(
            graph, T.mean_squared_error(graph, found, graph.input("labels", "f32", [-1, 3])), T.SGD(0.1)
        )
    return T.Trainer(graph, loss, T.SGD(0.1), **options)


def labels_for(which: str, count: int) -> Any:
    return np.zeros((count, 3), np.float32) if which == "regression" else np.zeros(count, np.int64)


@pytest.mark.parametrize("run", RUNS, ids=RUN_NAMES)
@pytest.mark.parametrize("which", [one for one in BUILDERS if one != "batch of six"])
def test_labels_of_another_length_are_told_by_name(which: str, run: Callable[[T.Trainer, Any], Any]) -> None:
    trainer = trainer_of(which)
    for count in (5, 1, 0, 12):
        feeds = {"image": IMAGES, "labels": labels_for(which, count)}
        if "validation" in RUN_NAMES[RUNS.index(run)] and which == "regression":
            continue  # its training feeds have other labels
        with pytest.raises(og.ShapeError) as caught:
            run(trainer, feeds)
        assert str(caught.value) == (
            f"all inputs must have as many examples, got 6 of 'image', {count} of 'labels'; give each example all that "
            "belongs to it"
        )
        if "validation" not in RUN_NAMES[RUNS.index(run)]:
            assert trainer.steps == trainer.skipped == 0


def test_several_steps_that_are_one_update_say_so_too() -> None:
    trainer = trainer_of("built", accumulate=2)
    with pytest.raises(og.ShapeError, match="got 6 of 'image', 5 of 'labels'"):
        trainer.step({"image": IMAGES, "labels": LABELS[:5]})
    assert np.isfinite(trainer.step(FEEDS))


def test_what_else_is_wrong_with_shapes_is_not_blamed_on_the_batch() -> None:
    graph = og.Graph()
    x, scale = graph.input("x", "f32", [-1, 3]), graph.input("scale", "f32", [-1])
    w = graph.parameter(np.ones((3, 1), np.float32), name="w")
    loss = graph.reduce_sum(graph.matmul(graph.multiply(x, scale), w), axes=[0, 1])
    trainer = T.Trainer(graph, loss, T.SGD(0.1))
    with pytest.raises(og.ShapeError) as caught:  # as many as x has columns would fit, as many as rows don't
        trainer.step({"x": np.ones((4, 3), np.float32), "scale": np.ones(2, np.float32)})
    assert "examples" not in str(caught.value)
    trainer.step({"x": np.ones((4, 3), np.float32), "scale": np.ones(3, np.float32)})


@pytest.mark.parametrize("run", RUNS, ids=RUN_NAMES)
@pytest.mark.parametrize("which", BUILDERS[:-1])
def test_labels_of_two_axes(which: str, run: Callable[[T.Trainer, Any], Any]) -> None:
    trainer = trainer_of(which)
    size = "6" if which == "batch of six" else r"\?"
    with pytest.raises(
        og.ShapeError,
        match=rf"^input 'labels' must have shape \[{size}\], got \[6, 1\]; leave out the last axis, array\[..., 0\]$",
    ):
        run(trainer, {"image": IMAGES, "labels": LABELS[:, None]})
    with pytest.raises(og.ShapeError, match=r"array.argmax\(-1\) has the numbers of the classes$"):
        run(trainer, {"image": IMAGES, "labels": np.eye(3, dtype=np.int64)[LABELS]})


@pytest.mark.parametrize(
    ("image", "way"),
    [
        (IMAGES[0], "array[None]"),
        (IMAGES[None], "array[0]"),
        (IMAGES.transpose(0, 2, 3, 1), ".transpose(0, 3, 1, 2)"),
        (IMAGES[:, 0, :, 0], "give an array of that shape"),
    ],
)
def test_images_with_other_axes(image: Any, way: str) -> None:
    with pytest.raises(og.ShapeError, match="^input 'image' must have shape ") as caught:
        trainer_of("built").step({"image": image, "labels": LABELS})
    assert way in str(caught.value)


NO_NAMES = [
    ((IMAGES, LABELS), "got arrays without names"),
    ([IMAGES, LABELS], "got arrays without names"),
    (IMAGES, "got an array without names"),
    (FEEDS, r"got one dict; write \[feeds\]"),
]


@pytest.mark.parametrize(("given", "message"), NO_NAMES)
def test_what_is_no_sequence_of_batches(given: Any, message: str) -> None:
    trainer = trainer_of("built")
    if "names" in message:
        message += r"; write \[\{'image': …, 'labels': …\}\] for one batch, or Loader\(\{'image'"
    for what, run in {
        "batches": lambda: trainer.fit(given),
        "validation": lambda: trainer.fit([FEEDS], validation=given),
        "validate: batches": lambda: trainer.validate(given),
    }.items():
        with pytest.raises(og.ArgumentTypeError, match=f"^{what} must be a sequence of mappings .*{message}"):
            run()
    assert trainer.steps == 0  # validation data too is looked at before the first one
    with pytest.raises(og.ArgumentTypeError, match="^batches must be a sequence of mappings"):
        trainer.fit(IMAGES, LABELS)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [(IMAGES, LABELS), [IMAGES, LABELS], IMAGES])
def test_a_batch_without_names(batch: Any) -> None:
    trainer = trainer_of("built")
    for run in (
        lambda: trainer.step(batch),
        lambda: trainer.evaluate(batch),
        lambda: trainer.fit([batch] if isinstance(batch, tuple | list) else iter([batch])),
        lambda: trainer.validate([batch] if isinstance(batch, tuple | list) else iter([batch])),
    ):
        with pytest.raises(og.ArgumentTypeError, match=r"as FromTorch\(batches, \['image', 'labels'\]\)"):
            run()


def test_a_loader_of_torch_wants_names() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS))
    loader = torch.utils.data.DataLoader(data, batch_size=6)
    trainer = trainer_of("built")
    for run in (lambda: trainer.fit(loader), lambda: trainer.validate(loader)):
        with pytest.raises(
            og.ArgumentTypeError, match=r"got a list; .* FromTorch\(batches, \['image', 'labels'\]\)"
        ):
            run()
    named = T.FromTorch(loader, ["image", "labels"])
    assert len(trainer.fit(named, validation=named)) == 1
