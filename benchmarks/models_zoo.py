"""The models of `models.py`: built with random weights, exported to ONNX once, quantised, kept in a folder.

Nothing is downloaded. A module with weights that say something (see `condition` in tests/support), its inputs and what
torch makes of them are what every peer is given. Delete the folder after changing a model here.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from attrs import frozen
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from machines import sums_saturate
from models_modules import AsBf16, Named, UNet, Yolo
from models_peers import INTEGERS, NARROW, furthest
from torchvision_models import condition, images  # torchvision can be imported after it only
from torchvision_models import models as torchvision_models

Array = np.ndarray
Tensors = dict[str, torch.Tensor]
CALIBRATION = 8
"""Images that statistics of batch normalisations are taken from."""
BATCHES = 2
"""That the int8 models' scales are taken from."""
SIZES = {
    "inception_v3": 299,
    "unet": 256,
    "yolo": 320,
    "ssd300_vgg16": 300,
    "ssdlite320_mobilenet_v3_large": 320,
}
"""Height and width of the images; 224 for all others."""
OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"init_weights": False},
}
HELD_AT = {"f32": 1e-4, "bf16": 0.05, "int8": 0.1, NARROW: 0.1}
"""Differences over the result's range that are never called wrong: sums in another order, a few steps of rounding."""
NOISE = 3.0
"""Nor are those up to so many times what rounding alone does; random networks enlarge it."""


@frozen
class Recipe:
    """How to make a model.

    Attributes:
        make: the module; weights are drawn from torch's generator.
        inputs: batch and seed → input name → tensor.
    """

    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int, int], Tensors]


def _image(size: int) -> Callable[[int, int], Tensors]:
    return lambda batch, seed: {"x": images(batch, (size, size), seed)}


def _normal(*shape: int) -> Callable[[int, int], Tensors]:
    def draw(batch: int, seed: int) -> Tensors:
        return {"x": torch.randn((batch, *shape), generator=torch.Generator().manual_seed(seed))}

    return draw


def _tokens(count: int, vocabulary: int, mask: bool) -> Callable[[int, int], Tensors]:
    """Token numbers, and a mask that leaves out the last quarter of every second text."""

    def draw(batch: int, seed: int) -> Tensors:
        rng = torch.Generator().manual_seed(seed)
        made = {"input_ids": torch.randint(1, vocabulary, (batch, count), generator=rng)}
        if mask:
            made["attention_mask"] = torch.ones(batch, count, dtype=torch.int64)
            made["attention_mask"][1::2, -count // 4 :] = 0
        return made

    return draw


def _transformer(config: str, model: str, result: str, **options: Any) -> Callable[[], torch.nn.Module]:
    """A model of transformers by the names of its classes, with random weights.

    Args:
        config, model: names in transformers.
        result: field of the model's output.
        options: of the config.
    """

    def make() -> torch.nn.Module:
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        return Named(made, result)

    return make


def _whisper() -> torch.nn.Module:
    import transformers

    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536
    )
    return Named(transformers.WhisperModel(config).get_encoder(), "last_hidden_state", "input_features")


def _encoder() -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


HIDDEN = "last_hidden_state"
LLAMA = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 16000,
    "use_cache": False,
}
RECIPES: Mapping[str, Recipe] = {
    "unet": Recipe(UNet, _image(SIZES["unet"])),
    "yolo": Recipe(Yolo, _image(SIZES["yolo"])),
    "encoder": Recipe(_encoder, _normal(128, 768)),
    "bert_base": Recipe(_transformer("BertConfig", "BertModel", HIDDEN), _tokens(128, 30000, mask=True)),
    "distilbert": Recipe(
        _transformer("DistilBertConfig", "DistilBertModel", HIDDEN), _tokens(128, 30000, mask=True)
    ),
    "gpt2": Recipe(
        _transformer("GPT2Config", "GPT2Model", HIDDEN, use_cache=False), _tokens(128, 50000, mask=False)
    ),
    "vit_hf": Recipe(_transformer("ViTConfig", "ViTModel", HIDDEN), _image(224)),
    "clip_vision": Recipe(_transformer("CLIPVisionConfig", "CLIPVisionModel", HIDDEN), _image(224)),
    "clip_text": Recipe(
        _transformer("CLIPTextConfig", "CLIPTextModel", HIDDEN), _tokens(77, 49000, mask=False)
    ),
    "whisper_encoder": Recipe(_whisper, _normal(80, 3000)),
    "llama": Recipe(
        _transformer("LlamaConfig", "LlamaModel", HIDDEN, **LLAMA), _tokens(128, 16000, mask=False)
    ),
    "segformer_b0": Recipe(
        _transformer("SegformerConfig", "SegformerForSemanticSegmentation", "logits"), _image(224)
    ),
}
"""What is not torchvision's; any model of torchvision has its own name, and any of timm has "timm." before it."""
TIMM = "timm."
STANDARD = (
    "resnet50",
    "mobilenet_v2",
    "vit_b_16",
    "bert_base",
    "unet",
    "convnext_tiny",
    "efficientnet_b0",
    "yolo",
)


def recipe(name: str) -> Recipe:
    """The recipe of a name: one of `RECIPES`, or any of timm's or torchvision's models; of detectors the backbone.

    Raises:
        ValueError: torchvision has no such model.
        RuntimeError: timm has none.
    """
    if name in RECIPES:
        return RECIPES[name]
    if name.startswith(TIMM):
        return Recipe(partial(_from_timm, name.removeprefix(TIMM)), _image(SIZES.get(name, 224)))
    return Recipe(partial(_from_torchvision, name), _image(SIZES.get(name, 224)))


def _from_timm(name: str) -> torch.nn.Module:
    import timm

    return timm.create_model(name, pretrained=False)


def _from_torchvision(name: str) -> torch.nn.Module:
    if name in torchvision_models.list_models(module=torchvision_models.segmentation):
        return Named(torchvision_models.get_model(name, weights=None, weights_backbone=None), "out")
    if name in torchvision_models.list_models(module=torchvision_models.detection):
        return Named(torchvision_models.get_model(name, weights=None, weights_backbone=None).backbone)
    return torchvision_models.get_model(name, weights=None, **OPTIONS.get(name, {}))


def in_bf16(module: torch.nn.Module) -> torch.nn.Module:
    """The same model in bf16, with f32 in and out."""
    return AsBf16(module.to(torch.bfloat16)).eval()


@frozen
class Kept:
    """One model at one batch in the folder; everything is made when it is asked for first.

    Attributes:
        name: of the recipe.
        batch: of its inputs.
        folder: where all models lie.
    """

    name: str
    batch: int
    folder: Path

    def path(self, ending: str) -> Path:
        return self.folder / f"{self.name}.{ending}"

    def _made(self, ending: str, write: Callable[[Path], None]) -> Path:
        """The file, written under another name first: what was interrupted is not taken for whole."""
        path = self.path(ending)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"part.{path.name}")
            write(part)
            part.replace(path)
        return path

    def module(self) -> torch.nn.Module:
        """The torch module, in inference mode."""
        return torch.load(self.module_path(), weights_only=False)

    def module_path(self) -> Path:
        return self._made("module.pt", self._build)

    def _build(self, path: Path) -> None:
        made = recipe(self.name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = made.make()
        several = made.inputs(CALIBRATION, 1)
        condition(_Applied(module), several)
        torch.save(module.eval(), path)

    def feeds(self, seed: int = 2) -> dict[str, Array]:
        """Inputs by name; the seed is none of those that statistics and scales were taken from."""
        return {k: v.numpy() for k, v in recipe(self.name).inputs(self.batch, seed).items()}

    @property
    def has_images(self) -> bool:
        """Whether it has an input with height, width and channels, which may lie in another order."""
        return any(array.ndim == 4 for array in self.feeds().values())

    def onnx_path(self, dtype: str) -> Path:
        """The model as ONNX in f32, or int8 with QuantizeLinear and DequantizeLinear."""
        write = partial(self._quantize, dtype == NARROW) if dtype in INTEGERS else self._export
        return self._made(f"b{self.batch}.{dtype}.onnx", write)

    def _export(self, path: Path) -> None:
        module = self.module()
        tensors = recipe(self.name).inputs(self.batch, 2)
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # torch's own deprecations
            torch.onnx.export(
                module,
                tuple(tensors.values()),
                str(path),
                input_names=list(tensors),
                dynamo=True,
                verbose=False,
                external_data=False,
            )

    def _quantize(self, narrow: bool, path: Path) -> None:
        source = self.onnx_path("f32")
        prepared = path.with_name(f"prepared.{path.name}")
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)  # the tool's advice to do what is done here
        try:
            quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
            feeds = iter([self.feeds(seed) for seed in range(4, 4 + BATCHES)])
            quantize_static(
                str(prepared),
                str(path),
                _Batches(feeds),
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=narrow,
            )
        finally:
            logging.disable(before)
        prepared.unlink()

    def data_path(self, dtype: str) -> Path:
        """Inputs ("in x", "in mask", …), results ("out 0", …) and the difference from them that is called wrong.

        The results in f32 and bf16 are torch's in f32; in int8 those of the quantised model as onnxruntime runs it node
        by node. Rounding alone is torch in bf16, or onnxruntime with all its optimisations, where it cuts off no sums.
        """
        return self._made(f"b{self.batch}.{dtype}.npz", partial(self._write_data, dtype))

    def _write_data(self, dtype: str, path: Path) -> None:
        results, noise = self._expected(dtype)
        arrays = {f"in {name}": array for name, array in self.feeds().items()}
        arrays |= {f"out {number}": array for number, array in enumerate(results)}
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, limit=np.float64(max(HELD_AT[dtype], NOISE * noise)), **arrays)

    def _expected(self, dtype: str) -> tuple[list[Array], float]:
        level = onnxruntime.GraphOptimizationLevel
        if dtype in INTEGERS:
            results = self._onnxruntime(dtype, level.ORT_DISABLE_ALL)
            if dtype != NARROW and sums_saturate():
                return results, 0.0
            return results, furthest(self._onnxruntime(dtype, level.ORT_ENABLE_ALL), results)
        results = self._torch(self.module())
        if dtype == "bf16":
            return results, furthest(self._torch(in_bf16(self.module())), results)
        return results, furthest(self._onnxruntime(dtype, level.ORT_ENABLE_ALL), results)

    def _onnxruntime(self, dtype: str, level: Any) -> list[Array]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 3
        path = str(self.onnx_path(dtype))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session.run(None, self.feeds())

    def _torch(self, module: torch.nn.Module) -> list[Array]:
        with torch.inference_mode():
            made = module(*recipe(self.name).inputs(self.batch, 2).values())
        return [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]


class _Applied(torch.nn.Module):
    """Takes its inputs by name in one dictionary, as `condition` passes one thing."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, given: Tensors) -> Any:
        return self.module(*given.values())


class _Batches(CalibrationDataReader):
    def __init__(self, feeds: Iterator[dict[str, Array]]) -> None:
        self._feeds = feeds

    def get_next(self) -> dict[str, Array] | None:
        return next(self._feeds, None)
