"""torchvision's models with random weights: built, given sensible statistics, exported to ONNX and quantised.

Needs the extra 'test-models'. Nothing is downloaded: weights are drawn from a seed.
"""

import logging
import sys
import types
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

# Shape rules of torchvision's compiled detection ops, which no model here has. They can't be registered where torch
# and torchvision were built for different devices (a torch for the CPU), and then torchvision can't be imported.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
from torchvision import models  # noqa: E402 -- it reads what stands above

nn = torch.nn

IMAGES = 2
"""Of the batch that is compared."""
CALIBRATION = 16
"""Images that the statistics of batch normalisations are taken from."""


@dataclass(frozen=True)
class Model:
    """One model of torchvision.

    Attributes:
        name: torchvision's.
        size: height and width of the images; odd ones, so that no size is a multiple of a vector.
        options: for torchvision's function.
    """

    name: str
    size: tuple[int, int] = (97, 81)
    options: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """A model that is ready.

    Attributes:
        module: the torch module, in inference mode.
        x: images that neither statistics nor scales were taken from.
        path: of the f32 ONNX model.
    """

    module: nn.Module
    x: torch.Tensor
    path: Path


class _Out(nn.Module):
    """A segmentation model's result without its dictionary."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)["out"]


def build(model, folder):
    """Draws the weights, takes the statistics, and exports."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        segmentation = model.name in models.list_models(module=models.segmentation)
        options = {"weights_backbone": None, **model.options} if segmentation else model.options
        module = models.get_model(model.name, weights=None, **options)
    module = _Out(module) if segmentation else module
    condition(module, images(CALIBRATION, model.size, seed=1))
    x = images(IMAGES, model.size, seed=2)
    path = folder / f"{model.name}.onnx"
    export(module, x, path)
    return Built(module, x, path)


def images(count, size, seed):
    """Images with a colour, coarse shapes and noise each: white noise would be all the same after a global pooling."""
    rng = torch.Generator().manual_seed(seed)

    def normal(height, width):
        return torch.randn((count, 3, height, width), generator=rng)

    coarse = nn.functional.interpolate(normal(size[0] // 16, size[1] // 16), size, mode="bilinear")
    return 1.2 * coarse + 0.5 * normal(1, 1) + 0.3 * normal(*size)


def condition(module, batch):
    """Makes a fresh model one whose numbers say something, without training.

    Parameters that begin as all zeros or ones are drawn, and statistics are measured. With shifts around 0.5 behind
    batch normalisations about two thirds of what enters a ReLU is positive. A network with shifts of 0 doubles a small
    difference in every few layers: 50-fold in a ResNet-50, so that one step of one u8 element in front is 20 % of the
    result. With these the factor is about 1, and results tell errors from rounding.
    """
    shifts = {id(part.bias) for part in module.modules() if isinstance(part, nn.BatchNorm2d)}
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            first = parameter.reshape(-1)[0]
            if not bool((parameter == first).all()):
                continue
            if float(first) == 0:
                mean, deviation = (0.5, 0.2) if id(parameter) in shifts else (0.0, 0.1)
                parameter.normal_(mean, deviation, generator=rng)
            elif float(first) == 1 or name.endswith("layer_scale"):  # ConvNeXt begins with 1e-6
                parameter.uniform_(0.5, 1.0, generator=rng)
    module.eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # a plain mean
            part.train()
            part.reset_running_stats()
    with torch.no_grad():
        module(batch)
    module.eval()


def export(module, x, path, **options):
    """Writes the ONNX model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own deprecations
        torch.onnx.export(
            module,
            (x,),
            str(path),
            input_names=["x"],
            output_names=["y"],
            dynamo=True,
            verbose=False,
            external_data=False,
            **options,
        )


class _Batches(CalibrationDataReader):
    def __init__(self, size):
        self._batches = iter([images(IMAGES, size, seed).numpy() for seed in (4, 5)])

    def get_next(self):
        batch = next(self._batches, None)
        return None if batch is None else {"x": batch}


def quantize(model, built, path, *, activations="u8", per_channel=True, layout="QDQ"):
    """Writes the model's int8 version, made by onnxruntime's own tool."""
    types_of = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    prepared = path.with_suffix(".prepared.onnx")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the tool's advice to do what is done here
    try:
        quant_pre_process(str(built.path), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(path),
            _Batches(model.size),
            quant_format=QuantFormat[layout],
            activation_type=types_of[activations],
            weight_type=QuantType.QInt8,
            per_channel=per_channel,
        )
    finally:
        logging.disable(before)


def onnxruntime_result(path, x, *, optimised=False):
    """What onnxruntime makes of it: as written, or with all its optimisations, its own int8 kernels among them."""
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def difference(result, expected):
    """Norm of the difference, relative to the expected."""
    result, expected = np.asarray(result, "f8"), np.asarray(expected, "f8")
    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))
