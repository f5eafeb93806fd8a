"""Language models of transformers with random weights, for `language.py`, and forms of them that engines can take."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from attrs import frozen
from safetensors.torch import load_file, save_file

Tensors = tuple[torch.Tensor, torch.Tensor]


@frozen
class Size:
    """A model.

    Attributes:
        architecture: the class of transformers is called so.
        words, width, hidden, layers, heads, shared: sizes; heads are of queries, and shared ones of keys and values.
        tied: whether the embedding is also the head.
    """

    architecture: str
    words: int
    width: int
    hidden: int
    layers: int
    heads: int
    shared: int
    tied: bool


SIZES = {
    "llama": Size("Llama", 16384, 768, 2048, 16, 12, 4, tied=False),
    "qwen": Size("Qwen2", 16384, 896, 2432, 14, 14, 2, tied=True),
    "llama tiny": Size("Llama", 320, 128, 256, 2, 4, 2, tied=False),
    "qwen tiny": Size("Qwen2", 320, 128, 256, 2, 4, 2, tied=True),
}
"""Some 100 to 150 million parameters, and as small as can be."""


def cached_by(model: Any, cache: object) -> dict[str, object]:
    """The cache as an argument of the model, whose name differs between versions of transformers."""
    known = inspect.signature(model.forward).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}


def configured(size: Size, length: int) -> Any:
    """The model, with whatever weights it is made with."""
    config = getattr(transformers, f"{size.architecture}Config")(
        vocab_size=size.words,
        hidden_size=size.width,
        intermediate_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.shared,
        max_position_embeddings=length,
        tie_word_embeddings=size.tied,
        rms_norm_eps=1e-6,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return getattr(transformers, f"{size.architecture}ForCausalLM")(config).eval()


def written(size: Size, length: int, path: Path) -> None:
    """Writes random weights to a file of safetensors; norms and biases are no ones and zeros."""
    torch.manual_seed(0)
    model = configured(size, length)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.normal_(1.0 if "norm" in name else 0.0, 0.1)
    tied = {"lm_head.weight"} if size.tied else set[str]()
    save_file({name: t for name, t in model.state_dict().items() if name not in tied}, path)


def loaded(size: Size, length: int, path: Path) -> Any:
    """The model with the weights of such a file."""
    model = configured(size, length)
    missing, unexpected = model.load_state_dict(load_file(path), strict=False)
    if unexpected or {*missing} - {"lm_head.weight"}:
        raise ValueError(f"{path} is of another model: {missing}, {unexpected}")
    model.tie_weights()
    return model


class _Rows:
    """Keys and values in memory of a fixed length, whose rows at some positions are replaced."""

    def __init__(self, held: Sequence[Tensors], at: torch.Tensor) -> None:
        self.held, self.at = held, at

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: object, **__: object
    ) -> Tensors:
        found = self.held[layer]
        for held, new in zip(found, (keys, values), strict=True):
            held.index_copy_(2, self.at, new)
        return found

    def get_seq_length(self, *_: object) -> int:
        return 0  # positions and masks are given


class _Grown(_Rows):
    """Keys and values that become longer."""

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: object, **__: object
    ) -> Tensors:
        held = list(self.held)
        held[layer] = (torch.cat((held[layer][0], keys), 2), torch.cat((held[layer][1], values), 2))
        self.held = held
        return held[layer]


def _logits(model: Any, ids: torch.Tensor, at: torch.Tensor, cache: _Rows, length: int) -> torch.Tensor:
    mask = (at[:, None] >= torch.arange(length))[None, None]
    more = cached_by(model, cache)
    made = model(ids, attention_mask=mask, position_ids=at[None], logits_to_keep=1, use_cache=True, **more)
    return made.logits[:, -1]


class Written(torch.nn.Module):
    """From tokens and their positions to logits of the token behind them; the cache is in buffers."""

    def __init__(self, model: Any, length: int) -> None:
        super().__init__()
        self.model, self.length, config = model, length, model.config
        shape = (1, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
        for number in range(config.num_hidden_layers):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}_{number}", torch.zeros(shape), persistent=False)

    def forward(self, ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        layers = range(self.model.config.num_hidden_layers)
        held = [(getattr(self, f"keys_{n}"), getattr(self, f"values_{n}")) for n in layers]
        return _logits(self.model, ids, at, _Rows(held, at), self.length)


class Grown(torch.nn.Module):
    """The same; the caches are arguments and results."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, at: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache = _Grown(list(zip(past[::2], past[1::2], strict=True)), at)
        length = past[0].shape[2] + ids.shape[1]
        logits = _logits(self.model, ids, at, cache, length)
        return logits, *(one for pair in cache.held for one in pair)


def empty(model: Any, length: int) -> list[torch.Tensor]:
    """Caches of so many tokens."""
    config = model.config
    shape = (1, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
    return [torch.zeros(shape) for _ in range(2 * config.num_hidden_layers)]


def prompt_of(size: Size, count: int) -> np.ndarray:
    """Tokens."""
    return np.random.default_rng(0).integers(0, size.words, count)
