"""A small language model with a cache of keys and values, in f32, bf16, and with weights of 8 and 4 bits:
python examples/language_model.py

A Llama-like decoder of torch gets its weights from a file of safetensors and becomes a graph. The cache is the graph's
state, in which each call writes the rows of its own tokens. A prompt and then token by token, greedily: tokens are
those of eager torch, and logits with fewer bits are held against those of f32.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn

Array = NDArray[Any]
Step = Callable[[Array, Array], Array]
"""From tokens and their positions to logits."""
LENGTH = 64  # of the cache, in tokens
BOUNDS = {"bf16": 0.05, "s8": 0.05, "dynamic": 0.1, "s4": 0.6}
"""Largest difference of a logit to that of f32, in standard deviations of the logits."""


class Attention(nn.Module):
    """Several heads of queries share one of keys and values, which stay in the cache."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.size, self.shared = width // heads, shared
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, shared * self.size, bias=False)
        self.v = nn.Linear(width, shared * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, shared, LENGTH, self.size), persistent=False)

    def forward(self, x: torch.Tensor, at: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        count = x.shape[1]
        q, k, v = (
            layer(x).reshape(1, count, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        self.keys.index_copy_(2, at, turned(k, turn))
        self.values.index_copy_(2, at, v)
        # The queries of a group one below the other: nothing of the cache is repeated.
        q = turned(q, turn).reshape(1, self.shared, -1, self.size)
        scores = (q @ self.keys.transpose(2, 3) * self.size**-0.5).reshape(1, -1, count, LENGTH)
        seen = at[:, None] >= torch.arange(LENGTH)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).reshape(1, self.shared, -1, LENGTH)
        mixed = (weights @ self.values).reshape(1, -1, count, self.size)
        return self.o(mixed.transpose(1, 2).reshape(1, count, -1))


def turned(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Pairs of elements turned by angles that grow with the position."""
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat((-second, first), -1) * turn[1]


class Block(nn.Module):
    """Attention and a gated network, each added to what it reads."""

    def __init__(self, width: int, hidden: int, heads: int, shared: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, shared)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)

    def forward(self, x: torch.Tensor, at: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), at, turn)
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """From tokens at some positions to logits of the token behind the last one."""

    angles: torch.Tensor

    def __init__(self, words: int, width: int, hidden: int, layers: int, heads: int, shared: int) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), nn.RMSNorm(width, 1e-5)
        self.blocks = nn.ModuleList(Block(width, hidden, heads, shared) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        size = width // heads
        self.register_buffer("angles", 10000 ** (-torch.arange(0, size, 2) / size), persistent=False)

    def forward(self, ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        angles = (at[:, None] * self.angles).repeat(1, 2)
        x, turn = self.embedding(ids), torch.stack((angles.cos(), angles.sin()))
        for block in self.blocks:
            x = block(x, at, turn)
        return self.head(self.norm(x[:, -1]))


def generated(
    step: Step, prompt: list[int], count: int, forced: list[int] | None = None
) -> tuple[list[int], Array]:
    """The tokens behind a prompt, each the likeliest one or those that are forced, and the logits of each."""
    tokens, logits, fed, place = list[int](), list[Array](), prompt, 0
    for number in range(count):
        logits.append(step(np.array([fed]), np.arange(place, place + len(fed)))[0].astype(np.float32))
        place += len(fed)
        tokens.append(int(logits[-1].argmax()) if forced is None else forced[number])
        fed = tokens[-1:]
    return tokens, np.stack(logits)


def compiled(opened: og.OpenGraph, prompt: int, change: Callable[[og.Graph], og.Graph]) -> Step:
    """Runs a prompt of that length, and single tokens, on one state that begins with zeros."""
    models: dict[int, Any] = {}
    for count in {prompt, 1}:
        graph = opened.with_shapes({"ids": [1, count], "at": [count]})
        assert isinstance(graph, og.Graph)
        graph.set_parameters({name: np.zeros_like(array) for name, array in graph.parameters.items()})
        models[count] = change(graph).compile()

    def step(ids: Array, at: Array) -> Array:
        return models[ids.shape[1]](ids=ids, at=at).only

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=24, help="how many are generated")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    sizes = {"words": 512, "width": 128, "hidden": 320, "layers": 3, "heads": 8, "shared": 2}
    path = Path("language_model.safetensors")
    save_file(Decoder(**sizes).state_dict(), path)
    model = Decoder(**sizes).eval()
    model.load_state_dict(load_file(path))
    print(f"{path}: {sum(p.numel() for p in model.parameters()):,} parameters")

    prompt = [17, 250, 3, 99, 401, 8]
    count = torch.export.Dim.AUTO  # a range is too much to prove for torch before 2.14
    opened = og.from_torch(
        model, (torch.tensor([prompt]), torch.arange(len(prompt))), dynamic_shapes=({1: count}, {0: count})
    )
    assert isinstance(opened, og.OpenGraph)

    def eager(ids: Array, at: Array) -> Array:
        with torch.no_grad():
            return model(torch.from_numpy(ids), torch.from_numpy(at)).numpy()

    expected, logits = generated(eager, prompt, arguments.tokens)
    decoder = opened.compile()
    tokens, exact = generated(lambda ids, at: decoder(ids, at).only, prompt, arguments.tokens)
    print(f"f32: tokens {tokens}")
    print(f"as eager torch's: {tokens == expected}, logits differ by {np.abs(exact - logits).max():.1e}")

    changes: dict[str, Callable[[og.Graph], og.Graph]] = {
        "bf16": lambda graph: graph.to("bf16"),
        "s8": lambda graph: graph.quantize_weights("s8"),
        "dynamic": lambda graph: graph.quantize_dynamic(),
        "s4": lambda graph: graph.quantize_weights("s4", group=32),
    }
    for name, change in changes.items():
        step = compiled(opened, len(prompt), change)
        _, rough = generated(step, prompt, arguments.tokens, forced=tokens)  # the same context for both
        off = np.abs(rough - exact).max() / exact.std()
        same = int((rough.argmax(1) == tokens).sum())
        print(
            f"{name}: {off:.3f} deviations at most, bound {BOUNDS[name]}; {same} of {len(tokens)} tokens as in f32"
        )


if __name__ == "__main__":
    main()
