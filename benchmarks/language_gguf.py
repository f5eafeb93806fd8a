"""Language models of transformers as files of GGUF, so that llama.cpp runs the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize

TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "s8": gguf.GGMLQuantizationType.Q8_0,
    "s4": gguf.GGMLQuantizationType.Q4_0,
}
"""Our name of a type of weights → GGUF's, with a scale for each block of 32."""
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2"}
"""transformers' `model_type` → GGUF's."""
NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""A layer's module → the tensor of it."""
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write(model: Any, path: Path, data_type: str) -> int:
    """Writes the model; returns the bytes of weights that products read for each token.

    Args:
        model: of transformers.
        data_type: of matrices; a key of `TYPES`. Vectors stay f32.

    Raises:
        ValueError: an architecture that has no name here.
    """
    config = model.config
    if config.model_type not in ARCHITECTURES:
        raise ValueError(f"{config.model_type} is none of {', '.join(ARCHITECTURES)}")
    writer = gguf.GGUFWriter(path, ARCHITECTURES[config.model_type])
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(float(config.rope_parameters["rope_theta"]))
    writer.add_vocab_size(config.vocab_size)
    _add_words(writer, config.vocab_size)
    read = 0
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        module, _, kind = name.rpartition(".")
        array = tensor.detach().numpy().astype(np.float32)
        if config.model_type == "llama":
            heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
            array = _by_pairs(array, heads.get(module.rpartition(".")[2], 0))
        wanted = TYPES[data_type] if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = quantize(array, wanted)
        writer.add_tensor(f"{_named(module)}.{kind}", data, raw_dtype=wanted)
        looked_up = module == "model.embed_tokens" and not config.tie_word_embeddings
        read += data.nbytes if array.ndim == 2 and not looked_up else 0
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def _named(module: str) -> str:
    if module in WHOLE:
        return WHOLE[module]
    _, _, number, rest = module.split(".", 3)
    return f"blk.{number}.{NAMES[rest]}"


def _by_pairs(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries and keys, so that the two elements which turn together are neighbours in each head."""
    if not heads:
        return array
    parts = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(array.shape)


def _add_words(writer: gguf.GGUFWriter, count: int) -> None:
    """A vocabulary that has all that must be there: nobody tokenises by it."""
    kinds = gguf.TokenType
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256]
    more = range(len(words), count)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*words, *(f"word{number}" for number in more)])
    writer.add_token_scores([0.0] * count)
    writer.add_token_types([*types, *[kinds.NORMAL for _ in more]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
