"""Engines that run a language model, for `language.py`: each takes tokens and their positions and gives logits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import language_models as models
import numpy as np
import torch
from attrs import define
from transformers import DynamicCache

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From tokens (L,) at positions (L,) to the logits behind the last one, (words,)."""


@define
class Peer:
    """One engine with the model loaded.

    Attributes:
        step: what runs it; a position of 0 begins anew.
        nbytes: of weights that products read for each token.
        generate: prompt and number of tokens → logits of each token, where the engine has a loop of its own.
    """

    step: Step
    nbytes: int
    generate: Callable[[np.ndarray, int], np.ndarray] | None = None


def weights_bytes(model: Any) -> int:
    """Of all matrices in f32 but an embedding that is only looked up."""
    looked_up = set[str]() if model.config.tie_word_embeddings else {"model.embed_tokens.weight"}
    return sum(4 * p.numel() for n, p in model.named_parameters() if p.ndim == 2 and n not in looked_up)


def eager(model: Any, length: int, bits: str, folder: Path) -> Peer:
    """Torch, with transformers' own cache."""
    del length, bits, folder
    caches = [DynamicCache()]

    def step(ids: np.ndarray, at: np.ndarray) -> np.ndarray:
        if not at[0]:
            caches[0] = DynamicCache()
        more = models.cached_by(model, caches[0])
        with torch.no_grad():
            made = model(torch.from_numpy(ids)[None], use_cache=True, logits_to_keep=1, **more)
        return made.logits[0, -1].numpy()

    return Peer(step, weights_bytes(model))


def compiled(model: Any, length: int, bits: str, folder: Path) -> Peer:
    """torch.compile with our backend, below transformers' own loop."""
    del length, bits, folder
    found = weights_bytes(model)
    model.forward = torch.compile(model.forward, backend="onednn_graph")

    def generate(prompt: np.ndarray, count: int) -> np.ndarray:
        made = model.generate(
            torch.from_numpy(prompt)[None],
            max_new_tokens=count,
            do_sample=False,
            cache_implementation="static",
            disable_compile=True,
            output_logits=True,
            return_dict_in_generate=True,
        )
        return torch.cat(made.logits).numpy()

    def step(ids: np.ndarray, at: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    return Peer(step, found, generate)


def ours(model: Any, length: int, bits: str, folder: Path) -> Peer:
    """Two programs, for the prompt and for one token, on one state."""
    del folder
    import onednn_graph as og

    count = torch.export.Dim.AUTO
    example = (torch.arange(4)[None], torch.arange(4))
    opened: Any = og.from_torch(
        models.Written(model, length), example, dynamic_shapes=({1: count}, {0: count})
    )
    changes: dict[str, Callable[[Any], Any]] = {
        "f32": lambda graph: graph,
        "bf16": lambda graph: graph.to("bf16"),
        "s8": lambda graph: graph.quantize_dynamic(),  # others' products are on integers, too
        "s8w": lambda graph: graph.quantize_weights("s8"),
        "s4": lambda graph: graph.quantize_weights("s4", group=128),
    }
    programs: dict[int, Any] = {}

    def program(size: int) -> Any:
        if size not in programs:
            programs[size] = changes[bits](opened.with_shapes({"ids": [1, size], "at": [size]})).compile()
        return programs[size]

    def step(ids: np.ndarray, at: np.ndarray) -> np.ndarray:
        return program(len(ids))(ids=ids[None], at=at).only[0].astype(np.float32)

    step(np.zeros(1, np.int64), np.zeros(1, np.int64))
    with og.profile() as profile:
        step(np.zeros(1, np.int64), np.zeros(1, np.int64))
    return Peer(step, _read(str(profile)))


ITEM_BITS = {"f32": 32, "bf16": 16, "f16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4}


def _read(profile: str) -> int:
    """Bytes of weights that are matrices, as the kernels of a step have read them."""
    found = re.findall(r"^  matmul .*weights (\w+) (\d+)x(\d+) ", profile, re.M)
    counts = [int(n) for n in re.findall(r"^  matmul\s+(\d+) .*weights \w+ \d+x\d+ ", profile, re.M)]
    return sum(
        n * ITEM_BITS[kind] * int(rows) * int(columns) // 8
        for n, (kind, rows, columns) in zip(counts, found, strict=True)
    )


def openvino(model: Any, length: int, bits: str, folder: Path) -> Peer:
    """OpenVINO with caches as its state; weights of 8 and 4 bits by nncf."""
    del length, folder
    import openvino as ov
    from openvino.passes import MakeStateful, Manager

    past = models.empty(model, 3)
    example = (torch.zeros(1, 2, dtype=torch.int64), torch.arange(3, 5), *past)
    with torch.no_grad():
        converted = ov.convert_model(models.Grown(model), example_input=example)
    names = ["ids", "at", *(f"past{n}" for n in range(len(past)))]
    heads, size = past[0].shape[1], past[0].shape[3]
    shapes: dict[Any, Any] = {}
    for number, (port, name) in enumerate(zip(converted.inputs, names, strict=True)):
        port.get_tensor().set_names({name})
        shapes[port] = ov.PartialShape([[1, -1], [-1]][number] if number < 2 else [1, heads, -1, size])
    for number, port in enumerate(converted.outputs[1:]):
        port.get_tensor().set_names({f"present{number}"})
    converted.reshape(shapes)
    manager = Manager()
    manager.register_pass(MakeStateful({f"past{n}": f"present{n}" for n in range(len(past))}))
    manager.run_passes(converted)
    nbytes = weights_bytes(model)
    if bits != "f32":
        import nncf

        modes = nncf.CompressWeightsMode
        more = (
            {"mode": modes.INT8_SYM}
            if bits == "s8"
            else {"mode": modes.INT4_SYM, "group_size": 128, "all_layers": True}
        )
        converted = nncf.compress_weights(converted, **more)
        nbytes = nbytes // 4 if bits == "s8" else nbytes // 8
    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0" if bits == "f32" else "32",
    }
    request = ov.Core().compile_model(converted, "CPU", settings).create_infer_request()

    def step(ids: np.ndarray, at: np.ndarray) -> np.ndarray:
        if not at[0]:
            request.reset_state()
        return request.infer({"ids": ids[None], "at": at})[0][0]

    return Peer(step, nbytes)


def llama_cpp(model: Any, length: int, bits: str, folder: Path) -> Peer:
    """llama.cpp on the same weights, its cache in f32."""
    import language_gguf
    import llama_cpp as lib

    file = folder / f"{bits}.gguf"
    nbytes = language_gguf.write(model, file, bits)
    threads = torch.get_num_threads()
    f32 = lib.GGML_TYPE_F32
    engine = lib.Llama(
        str(file), n_ctx=length, n_batch=length, n_ubatch=length, n_threads=threads, n_threads_batch=threads,
        type_k=f32, type_v=f32, verbose=False,
    )  # fmt: skip

    def step(ids: np.ndarray, at: np.ndarray) -> np.ndarray:
        if not at[0]:
            engine.reset()
            engine._ctx.kv_cache_clear()
        engine.eval(ids.tolist())
        found = lib.llama_get_logits_ith(engine._ctx.ctx, -1)
        return np.ctypeslib.as_array(found, (engine.n_vocab(),)).copy()

    return Peer(step, nbytes)


PEERS = {"eager": eager, "ours": ours, "compile": compiled, "openvino": openvino, "llama_cpp": llama_cpp}
"""Engine → how it is made ready; bits are of its weights."""


def checked(peer: Peer, prompt: np.ndarray, tokens: np.ndarray | None, count: int) -> np.ndarray:
    """Logits (count, words) behind a prompt, of tokens that are forced, or the likeliest ones."""
    if peer.generate is not None:
        return peer.generate(prompt, count)
    found = [peer.step(prompt, np.arange(len(prompt)))]
    for number in range(count - 1):
        token = int(found[-1].argmax()) if tokens is None else int(tokens[number])
        found.append(peer.step(np.array([token]), np.array([len(prompt) + number])))
    return np.stack(found)


def timed(peer: Peer, prompt: np.ndarray, tokens: np.ndarray) -> tuple[float, list[float]]:
    """Seconds of a prompt, and of each single token after it."""
    start = perf_counter()
    if peer.generate is not None:
        peer.generate(prompt, 1)
        first = perf_counter() - start
        start = perf_counter()
        peer.generate(prompt, len(tokens) + 1)
        return first, [(perf_counter() - start - first) / len(tokens)] * len(tokens)
    peer.step(prompt, np.arange(len(prompt)))
    first, steps = perf_counter() - start, list[float]()
    for number, token in enumerate(tokens):
        start = perf_counter()
        peer.step(np.array([token]), np.array([len(prompt) + number]))
        steps.append(perf_counter() - start)
    return first, steps
