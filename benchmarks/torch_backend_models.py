"""The models of `torch_backend.py`: torch modules, inputs and targets, the same for everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from training_models import RECIPES, zoo

WORDS, VOCABULARY = 128, 30522


def _bert() -> nn.Module:
    """BERT of four layers, with its logits as the result."""
    from transformers import BertConfig, BertForSequenceClassification

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = BertConfig(
                num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
            )
            self.bert = BertForSequenceClassification(config)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bert(input_ids=x).logits

    return Logits()


def _vit() -> nn.Module:
    """ViT-B/16 whose head isn't zero, as torchvision leaves it, so that there is a result to compare."""
    module = zoo.vit_b_16()
    nn.init.normal_(module.heads.head.weight, std=0.02)
    return module


OTHERS: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "vit_b_16": (_vit, (3, 224, 224), 4),
    "bert": (_bert, (WORDS,), 8),
}
"""What `training.py` has not: how it is made, the shape of an input, and the usual batch."""
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "convnext_tiny", "vit_b_16", "bert", "unet", "dcgan")


def usual_batch(name: str) -> int:
    return OTHERS[name][2] if name in OTHERS else RECIPES[name].batch


def has_images(name: str) -> bool:
    """Whether its memory can lie channels-last."""
    return name != "bert"


def problem(name: str, batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A module in training mode, its input, and a target: both drawn from a seed."""
    make, shape = OTHERS[name][:2] if name in OTHERS else (RECIPES[name].make, RECIPES[name].shape)
    torch.manual_seed(0)
    module = make().train()
    x = torch.randint(0, VOCABULARY, (batch, *shape)) if name == "bert" else torch.randn((batch, *shape))
    with torch.no_grad():
        made: Any = module(x)
    target = torch.randn(made.shape)
    return module, x, target.softmax(1) if made.ndim == 2 else target


def loss_of(made: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy of logits, the mean square of a difference of images."""
    made = made.to(target.dtype)
    return functional.cross_entropy(made, target) if made.ndim == 2 else functional.mse_loss(made, target)
