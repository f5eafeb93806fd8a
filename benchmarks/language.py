"""A language model beside eager torch and others: tokens per second of a prompt and of single tokens after it.

    pip install '.[bench]'
    python benchmarks/language.py --markdown language.md
    python benchmarks/language.py --peers ours,eager --layers 4

The decoder is that of `examples/language_model.py` with random weights, its cache written in place. Each peer has a
process of its own; results are held against the first token of eager torch's. Decoding reads all weights but the
embedding once for each token: `GB/s` is that, and stands beside what the machine copies in the same run, read and
written bytes together. A peer that is not installed, or can't take the model, is left out with a line.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import affinity
import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {
    "compile": "torch",
    "eager": "torch",
    "openvino": "openvino",
    "llama_cpp": "llama_cpp",
    "ours": "torch",
}
"""Peer → the package that it needs."""
Step = Callable[[np.ndarray, np.ndarray], np.ndarray]


def decoder(sizes: Mapping[str, int], length: int) -> Any:
    """The example's module with random weights."""
    sys.path.insert(0, str(EXAMPLES))
    import language_model
    import torch

    language_model.LENGTH = length  # of the caches that are made from here on
    torch.manual_seed(0)
    return language_model.Decoder(**sizes).eval()


def step_of(peer: str, module: Any, prompt: int, length: int) -> Step:
    """What takes tokens and their positions and gives logits."""
    import torch

    if peer in ("eager", "compile"):
        run = torch.compile(module, backend="onednn_graph") if peer == "compile" else module

        def on_tensors(ids: np.ndarray, at: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return run(torch.from_numpy(ids), torch.from_numpy(at)).numpy()

        return on_tensors
    example = (torch.zeros(1, prompt, dtype=torch.int64), torch.arange(prompt))
    if peer == "openvino":
        import openvino

        core = openvino.Core()
        core.set_property("CPU", {"INFERENCE_NUM_THREADS": torch.get_num_threads()})
        compiled = core.compile_model(openvino.convert_model(module, example_input=example), "CPU")
        return lambda ids, at: next(iter(compiled([ids, at]).values()))
    import onednn_graph as og

    count = torch.export.Dim("count", min=1, max=length)
    opened: Any = og.from_torch(module, example, dynamic_shapes=({1: count}, {0: count}))
    change = {"ours bf16": lambda g: g.to("bf16"), "ours s8": lambda g: g.quantize_weights("s8")}.get(peer)
    models = {}
    for size in (prompt, 1):
        graph = opened.with_shapes({"ids": [1, size], "at": [size]})
        models[size] = (graph if change is None else change(graph)).compile()
    return lambda ids, at: models[ids.shape[1]](ids=ids, at=at).only


def measured(peer: str, sizes: Mapping[str, int], prompt: int, tokens: int) -> dict[str, Any]:
    """Times and the first tokens of one peer."""
    import torch

    length = prompt + tokens
    module = decoder(sizes, length)
    streamed = sum(4 * p.numel() for p in module.parameters()) - 4 * sizes["words"] * sizes["width"]
    step = step_of(peer, module, prompt, length)
    ids = torch.randint(0, sizes["words"], (1, prompt)).numpy()
    prompts: list[float] = []
    logits = step(ids, np.arange(prompt))
    for _ in range(3):
        start = perf_counter()
        logits = step(ids, np.arange(prompt))
        prompts.append(perf_counter() - start)
    found, steps = list[int](), list[float]()
    for place in range(prompt, length):
        found.append(int(np.asarray(logits)[0].argmax()))
        start = perf_counter()
        logits = step(np.array([found[-1:]]), np.array([place]))
        steps.append(perf_counter() - start)
    return {"prompt": median(prompts), "step": median(steps[1:]), "tokens": found, "bytes": streamed}


def copied() -> float:
    """GB/s that all threads copy, read and written bytes together: the best of several."""
    threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or os.cpu_count() or 1
    pairs = [(np.ones(1 << 25, np.float32), np.zeros(1 << 25, np.float32)) for _ in range(threads)]
    best = np.inf
    for _ in range(5):
        workers = [threading.Thread(target=np.copyto, args=(b, a)) for a, b in pairs]
        start = perf_counter()
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        best = min(best, perf_counter() - start)
    return sum(2 * a.nbytes for a, _ in pairs) / best / 1e9


def asked(peer: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own has found; `error` where there is nothing."""
    package = NEEDS.get(peer, "torch")
    if importlib.util.find_spec(package) is None:
        return {"error": f"{package} is not installed"}
    if peer == "llama_cpp":
        return {"error": "it takes files of GGUF alone, and nobody has written this model as one"}
    words = [f"--{name}={getattr(options, name)}" for name in ("layers", "width", "prompt", "tokens")]
    run = subprocess.run(
        [sys.executable, __file__, f"--measure={peer}", *words],
        capture_output=True, text=True, check=False, preexec_fn=affinity.anywhere, timeout=1200,
    )  # fmt: skip
    if run.returncode:
        return {"error": run.stderr.strip().splitlines()[-1][:200]}
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--peers", default="ours,ours bf16,ours s8,compile,eager,openvino,llama_cpp")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--markdown", type=Path, default=None)
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = {
        "words": 16000, "width": options.width, "hidden": options.width * 27 // 10, "layers": options.layers,
        "heads": options.width // 64, "shared": options.width // 128,
    }  # fmt: skip
    if options.measure:
        print(json.dumps(measured(options.measure, sizes, options.prompt, options.tokens)))
        return
    stream = copied()
    results = {peer: asked(peer, options) for peer in options.peers.split(",")}
    eager = results.get("eager", {})
    lines = [
        "| | prompt, tokens/s | decode, tokens/s | against eager | GB/s of f32 weights | tokens as eager's |",
        "|---|---|---|---|---|---|",
    ]
    for peer, found in results.items():
        if "error" in found:
            lines.append(f"| {peer} | {found['error']} | | | | |")
            continue
        same = [a == b for a, b in zip(found["tokens"], eager.get("tokens", ()), strict=False)]
        rounded = peer in ("ours bf16", "ours s8")
        if not (rounded or all(same)):
            lines.append(
                f"| {peer} | its tokens are not those of eager torch, so it is not compared | | | | |"
            )
            continue
        ratio = f"{eager['step'] / found['step']:.2f}" if "step" in eager else ""
        speed = "" if rounded else f"{found['bytes'] / found['step'] / 1e9:.1f}"
        cells = [f"{options.prompt / found['prompt']:.0f}", f"{1 / found['step']:.1f}", ratio, speed]
        lines.append(f"| {peer} | {' | '.join(cells)} | {sum(same)} of {len(same)} |")
    told = f"\nThe machine copies {stream:.1f} GB/s, {options.layers} layers of width {options.width}.\n"
    print("\n".join([*lines, told]))
    if options.markdown is not None:
        options.markdown.write_text("\n".join(["# A language model", "", *lines, told]), encoding="utf-8")


if __name__ == "__main__":
    main()
