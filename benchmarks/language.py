"""Language models beside eager torch, OpenVINO and llama.cpp: tokens per second of a prompt and of tokens after it.

    pip install '.[bench]' transformers nncf gguf llama-cpp-python
    OMP_NUM_THREADS=2 python benchmarks/language.py --markdown language.md
    python benchmarks/language.py --models qwen --peers "ours f32,eager f32" --layers 24

A Llama-like and a Qwen-like model of transformers with random weights, from a file of safetensors, of which each peer
takes the same weights. With weights in s8 activations are in 8 bits, too, as they come; `ours s8w` has weights alone.
Each has a process of its own, and turns go round. What it makes is checked before: in f32 its
tokens are those of eager torch; its logits, for eager torch's tokens, are within `bound`. Decoding reads all weights
but a look-up once for each token: `GB/s` is that, and stands beside what all threads stream in the same run. A peer
that is not installed, or can't take the model, is left out with a line.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import affinity
import numpy as np
from attrs import evolve
from onednn_graph.tools.information import installed
from wgrad import environment

ERRORS = {"f32": 1e-5, "bf16": 0.004, "s8": 0.008, "s8w": 0.008, "s4": 0.11}
"""What rounding does to a product, in parts of it, as a root mean square: a twelfth of the square of a step.

Normal weights with one scale for a column of a thousand reach 3.2 deviations, in 127 steps, and in a group of 128 they
reach 2.7, in 7 steps. Activations in 8 bits must do with the same. In bf16 both factors and the result are rounded;
f32 has room for another order of sums.
"""
PRODUCTS = 7
"""In each layer."""
PEERS = (
    *("eager f32", "compile f32", "ours f32", "openvino f32", "llama_cpp f32"),
    "ours bf16",
    *("ours s8", "openvino s8", "llama_cpp s8"),
    *("ours s4", "openvino s4", "llama_cpp s4"),
)
NEEDS = {
    "eager": ("torch", "transformers"),
    "compile": ("torch", "transformers"),
    "ours": ("torch", "transformers"),
    "openvino": ("openvino",),
    "llama_cpp": ("llama_cpp", "gguf"),
}
"""Engine → packages that it needs."""
COLUMNS = (
    "model",
    "weights",
    "engine",
    "prompt, tokens/s",
    "decode, tokens/s",
    "against eager",
    "against llama.cpp",
    "GB/s of weights",
    "of the stream",
    "same tokens",
    "logits off by",
)


# --- in the process of a peer ----------------------------------------------------------------------------


def serve(name: str, options: argparse.Namespace) -> None:
    """Loads the model, writes one line of what it makes, and one for each line that it reads: seconds."""
    import language_models as models
    import language_peers as peers

    engine, bits = name.split(" ")
    folder = Path(options.folder)
    size = sized(options.models, options)
    length = options.prompt + options.tokens + 1
    model = models.loaded(size, length, folder / "model.safetensors")
    prompt = models.prompt_of(size, options.prompt)
    theirs = folder / "eager.npy"
    forced = None if engine == "eager" else np.load(theirs).argmax(1)
    peer = peers.PEERS[engine](model, length, bits, folder)
    logits = peers.checked(peer, prompt, forced, options.tokens + 1)
    if forced is None:
        np.save(theirs, logits)
    exact = np.load(theirs)
    print(
        json.dumps({
            "off": off(logits, exact),
            "bound": bound(bits, size.layers),
            "same": int((logits.argmax(1) == exact.argmax(1)).sum()),
            "nbytes": peer.nbytes,
            "parameters": sum(p.numel() for p in model.parameters()),
        }),
        flush=True,
    )  # fmt: skip
    tokens = exact.argmax(1)[: options.tokens]
    for _ in sys.stdin:
        print(json.dumps(peers.timed(peer, prompt, tokens)), flush=True)


def off(logits: np.ndarray, exact: np.ndarray) -> float:
    """How far logits are away, as a root mean square, in standard deviations of all logits."""
    return float(np.sqrt(np.square(logits - exact, dtype=np.float64).mean()) / exact.std())


def bound(bits: str, layers: int) -> float:
    """How far that may be: errors of all products, which know nothing of each other, added as squares."""
    return ERRORS[bits] * math.sqrt(PRODUCTS * layers + 1)


def sized(name: str, options: argparse.Namespace) -> Any:
    """The model, with as many layers as the options say."""
    import language_models as models

    size = models.SIZES[name]
    return evolve(size, layers=options.layers) if options.layers else size


# --- in the benchmark's own ------------------------------------------------------------------------------


class Child:
    """A peer's process; `error` says why there is none, or no more."""

    def __init__(self, name: str, model: str, options: argparse.Namespace, folder: Path) -> None:
        self.error = missing(name)
        self.prompts: list[float] = []
        self.steps: list[float] = []
        self.found: Mapping[str, Any] = {}
        if self.error:
            return
        words = [f"--{key}={getattr(options, key)}" for key in ("layers", "prompt", "tokens")]
        self._log = folder / f"{name}.log"
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, f"--serve={name}", f"--models={model}", f"--folder={folder}", *words],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=affinity.anywhere,
            )  # fmt: skip
        self.found = self._answer() or {}

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("{", "[")):  # engines may talk
                return json.loads(line)
        self._process.wait()
        lines = [x for x in self._log.read_text(encoding="utf-8").splitlines() if x.strip()]
        self.error = (lines or ["it has ended without a word"])[-1][:200].replace("|", "/")
        return None

    def turn(self) -> None:
        """Measures once more."""
        if self.error:
            return
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._answer()
        if answer is not None:
            self.prompts.append(answer[0])
            self.steps.append(median(answer[1]))

    def close(self) -> None:
        """Ends the process."""
        if not self.error:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


def missing(name: str) -> str:
    """What a peer needs and isn't there; nothing where all is."""
    engine, bits = name.split(" ")
    packages = NEEDS[engine] + (("nncf",) if engine == "openvino" and bits != "f32" else ())
    absent = [one for one in packages if importlib.util.find_spec(one) is None]
    return f"without {', '.join(absent)}" if absent else ""


def streamed() -> float:
    """GB/s that all threads read, or read and write together: the best of several, and of both."""
    threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or os.cpu_count() or 1
    pairs = [(np.ones(1 << 25, np.float32), np.zeros(1 << 25, np.float32)) for _ in range(threads)]

    def seconds(work: Any) -> float:
        workers = [threading.Thread(target=work, args=pair) for pair in pairs]
        start = perf_counter()
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        return perf_counter() - start

    def read(a: np.ndarray, b: np.ndarray) -> None:
        for place in range(0, a.size, 1 << 13):  # short enough that each thread stays one
            np.dot(a[place : place + (1 << 13)], b[place : place + (1 << 13)])

    def copy(a: np.ndarray, b: np.ndarray) -> None:
        np.copyto(b, a)

    best = min(min(seconds(copy), seconds(read)) for _ in range(5))
    return sum(2 * a.nbytes for a, _ in pairs) / best / 1e9


def measured(model: str, options: argparse.Namespace) -> tuple[str, list[list[str]]]:
    """What a model is, and the rows of its peers."""
    import language_models as models

    stream, size = streamed(), sized(model, options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        length = options.prompt + options.tokens + 1
        models.written(size, length, folder / "model.safetensors")
        names = [one.strip() for one in options.peers.split(",")]
        children = {one: Child(one, model, options, folder) for one in dict.fromkeys(("eager f32", *names))}
        for _ in range(options.turns):
            for child in children.values():
                child.turn()
        stream = max(stream, streamed())
        for child in children.values():
            child.close()
    millions = children["eager f32"].found.get("parameters", 0) / 1e6
    told = (
        f"{model}: {size.architecture}, {millions:.0f} million parameters, {size.layers} layers of width {size.width}; "
        f"all threads stream {stream:.1f} GB/s."
    )
    return told, [[model, *row(one, children, stream, options)] for one in names]


def row(name: str, children: Mapping[str, Child], stream: float, options: argparse.Namespace) -> list[str]:
    """The cells of a peer."""
    engine, bits = name.split(" ")
    child = children[name]
    count = options.tokens + 1
    wrong = refused(child, bits, count)
    if wrong:
        return [bits, engine, wrong, *[""] * (len(COLUMNS) - 4)]
    step, prompt = min(child.steps), min(child.prompts)

    def against(other: str) -> str:
        their = children.get(other)
        right = their is not None and not refused(their, other.split(" ")[1], count)
        return f"{min(their.steps) / step:.2f}" if right and their is not None else ""

    speed = child.found["nbytes"] / step / 1e9
    return [
        bits,
        engine,
        f"{options.prompt / prompt:.0f}",
        f"{1 / step:.1f}",
        against("eager f32"),
        against(f"llama_cpp {bits}"),
        f"{speed:.1f}",
        f"{speed / stream:.0%}",
        f"{child.found['same']} of {count}",
        f"{child.found['off']:.1g}",
    ]


def refused(child: Child, bits: str, count: int) -> str:
    """Why a peer is not compared; nothing where it is."""
    if child.error:
        return child.error
    if not child.found["off"] <= child.found["bound"]:
        return f"its logits are off by {child.found['off']:.2g} deviations, and not compared"
    if bits == "f32" and child.found["same"] != count:
        return "its tokens are not those of eager torch, and not compared"
    return "" if child.steps and math.isfinite(min(child.steps)) else "it has ended"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--models", default="llama,qwen")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--layers", type=int, default=0, help="other than the model's")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--markdown", type=Path, default=None)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options)
        return
    facts = {**environment(), "threads": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count()))}
    facts |= {name: installed(name) for name in ("transformers", "openvino", "nncf", "llama_cpp_python")}
    told = [
        "# Language models",
        "",
        ", ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
        f"A prompt of {options.prompt} tokens and {options.tokens} after it, one by one; shortest times.",
    ]
    rows = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for model in options.models.split(","):
        what, found = measured(model, options)
        told.append(what)
        rows += [f"| {' | '.join(cells)} |" for cells in found]
        text = "\n".join([*told, "", *rows, ""])
        print(text, flush=True)
        if options.markdown is not None:
            options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
