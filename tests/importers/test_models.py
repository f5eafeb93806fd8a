"""Whole models of torchvision, in f32 and int8, against onnxruntime and against our NumPy backend.

Run by `pytest -m models`; five of them by `pytest -m models_in_ci`. Plain pytest leaves them out.
"""

from dataclasses import dataclass

import numpy as np
import onednn_graph as og
import pytest

pytestmark = [
    pytest.mark.models,
    pytest.mark.usefixtures("onednn"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SIZES = {"vit_b_16": (96, 96), "maxvit_t": (224, 224)}
OPTIONS = {
    "vit_b_16": {"image_size": 96},
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"init_weights": False},
}
IN_CI = ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x1_0", "squeezenet1_1")
MODELS = (
    *IN_CI,
    "resnet50",
    "resnext50_32x4d",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "densenet121",
    "vgg11_bn",
    "alexnet",
    "googlenet",
    "inception_v3",
    "regnet_y_400mf",
    "mnasnet1_0",
    "convnext_tiny",
    "vit_b_16",
    "swin_t",
    "lraspp_mobilenet_v3_large",
    "deeplabv3_mobilenet_v3_large",
    "fcn_resnet50",
)
WAYS = {
    "int8": {},
    "int8 s8": {"activations": "s8"},
    "int8 per tensor": {"per_channel": False},
    "int8 operators": {"layout": "QOperator"},
}
"""How models are quantised; without more words u8 activations, and weights per channel."""
MORE_INT8 = ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "googlenet", "regnet_y_400mf")
"""Models that are quantised in all these ways, the others in the first."""

STEPS = 1
"""Of an integer result of one partition: sums of f32 in another order may lie on the other side of a tie ..."""
TIES = 2e-3
"""... which this share of the elements may do; a wrong kernel has most elements wrong, or many steps."""
PARTITION = 3e-6
"""Of an f32 result of one partition, in norm: some thousand terms, each rounded to 2⁻²⁴."""
F32, F32_NOISE = 5e-6, 3
"""Of the result of a model in f32: what layers make of the partitions' roundings, but no more than this times what
onnxruntime's own optimisations change. Inception-v3's statistics of few elements enlarge everything tenfold."""
INT8, INT8_NOISE = 0.01, 2
"""int8 models: no more than this times what rounding alone does. Elements at ties go either way, and from there on all
others may be a step away. Rounding alone: onnxruntime's optimisations, or its input moved by `MOVED`."""
MOVED = 2.0**-18
"""A thousandth of a step of the quantised images. In all models it changes the result by as much as we are away."""
ELSEWHERE = {"vgg11_bn": "Select Select"}
"""Partitions of ONNX models that are left to NumPy: the library has no selection."""


@dataclass(frozen=True)
class Case:
    model: str
    kind: str

    def __str__(self):
        return f"{self.model} {self.kind}".replace(" ", "-")


def cases():
    for model in MODELS:
        ways = WAYS if model in MORE_INT8 else ["int8"]
        for kind in ("f32", "f32 torch", *ways):
            case = Case(model, kind)
            marks = [pytest.mark.models_in_ci] if model in IN_CI and kind in ("f32", "int8") else []
            yield pytest.param(case, marks=marks, id=str(case))


@pytest.fixture(scope="module")
def zoo():
    import torch
    import torchvision_models

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torchvision_models
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def built(zoo, tmp_path_factory):
    """Makes a model and keeps the last one: tests of one model follow each other."""
    last = {}

    def make(name):
        if name not in last:
            last.clear()
            model = zoo.Model(name, SIZES.get(name, (97, 81)), OPTIONS.get(name, {}))
            last[name] = model, zoo.build(model, tmp_path_factory.mktemp(name))
        return last[name]

    return make


@dataclass(frozen=True)
class Row:
    """What is found out about one case: a row of the table that is printed at the end."""

    case: str
    ops: int
    elsewhere: str
    worst_steps: int
    worst_partition: float
    from_numpy: float
    from_onnxruntime: float
    numpy_from_onnxruntime: float
    noise: float


def compare_partitions(graph, x):
    """Each partition of the oneDNN backend on what NumPy makes of the ops before it, against NumPy.

    Returns:
        id of a tensor → what NumPy makes of it; rows (label, steps of integers, share of elements that differ, norm
        of the difference of f32), one for each result of a partition.
    """
    values = {t.id: x for t in graph.inputs} | {t.id: graph.constants[t.name] for t in graph.constant_tensors}
    for part in graph.get_partitions(backend="numpy"):
        results = part.compile().execute(None, [values[t.id] for t in part.input_ports])
        values.update((t.id, r) for t, r in zip(part.output_ports, results, strict=True))
    rows = []
    for part in graph.get_partitions():
        if part.backend != "onednn":
            continue
        results = part.compile().execute(None, [values[t.id] for t in part.input_ports])
        for tensor, result in zip(part.output_ports, results, strict=True):
            rows.append((part.label, *distance(result, values[tensor.id])))
    return values, rows


def distance(result, expected):
    """Steps of integers, the share that differs, and the relative norm of the difference of floats."""
    apart = np.abs(result.astype("f8") - expected.astype("f8"))
    if result.dtype.kind in "iub":
        return int(apart.max(initial=0)), float((apart > 0).mean()), 0.0
    return 0, 0.0, float(np.linalg.norm(apart) / max(np.linalg.norm(expected.astype("f8")), 1e-30))


@pytest.mark.parametrize("case", list(cases()))
def test_model(zoo, built, case, model_table):
    model, made = built(case.model)
    x, path = made.x.numpy(), made.path
    if case.kind in WAYS:
        path = path.with_suffix(f".{case.kind.replace(' ', '_')}.onnx")
        zoo.quantize(model, made, path, **WAYS[case.kind])
    imported = og.from_torch(made.module, (made.x,)) if case.kind == "f32 torch" else og.from_onnx(path)
    imported.finalize()
    (result,) = imported.compile()(x).values()
    expected = zoo.onnxruntime_result(path, x)
    noise = zoo.difference(zoo.onnxruntime_result(path, x, optimised=True), expected)
    if case.kind in WAYS:
        moved = x * (1 + MOVED * np.random.default_rng(0).uniform(-1, 1, x.shape)).astype(np.float32)
        noise = max(noise, zoo.difference(zoo.onnxruntime_result(path, moved), expected))
    values, parts = compare_partitions(imported, x)
    (output,) = imported.outputs
    row = Row(
        case=str(case),
        ops=len(imported.ops),
        elsewhere=" ".join(p.label for p in imported.get_partitions() if p.backend != "onednn"),
        worst_steps=max(steps for _, steps, _, _ in parts),
        worst_partition=max(norm for *_, norm in parts),
        from_numpy=zoo.difference(result, values[output.id]),
        from_onnxruntime=zoo.difference(result, expected),
        numpy_from_onnxruntime=zoo.difference(values[output.id], expected),
        noise=noise,
    )
    model_table.append(row)

    assert zoo.difference(expected[0], expected[1]) > 0.02, (
        "the images all give the same; errors would not show"
    )
    wrong = [
        part
        for part in parts
        if part[1] > STEPS or part[2] > TIES or part[3] > PARTITION or np.isnan(part[3])
    ]
    assert not wrong, "partitions that differ from NumPy on the same inputs"
    least, times = (INT8, INT8_NOISE) if case.kind in WAYS else (F32, F32_NOISE)
    allowed = max(least, times * noise)
    assert max(row.from_numpy, row.from_onnxruntime, row.numpy_from_onnxruntime) <= allowed
    assert row.elsewhere == ("" if case.kind == "f32 torch" else ELSEWHERE.get(case.model, ""))
