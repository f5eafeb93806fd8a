"""NumPy kernel of Dropout, with oneDNN's random numbers.

Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011), Philox 4×32-10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...graph.model.op import Op
from .kernels import Array, kernel, store, wide

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF


def philox(count: int, seed: int, offset: int) -> NDArray[np.uint32]:
    """`count` random 32-bit numbers: four come from each counter (offset, position)."""
    blocks = np.arange(-(-count // 4), dtype=np.uint64) * np.uint64(4)
    mask, half = np.uint64(_WORD), np.uint64(32)
    counter = [
        np.full_like(blocks, offset & _WORD),
        np.full_like(blocks, (offset >> 32) & _WORD),
        blocks & mask,
        blocks >> half,
    ]
    key = [seed & _WORD, (seed >> 32) & _WORD]
    for _ in range(_ROUNDS):
        first, second = counter[0] * _MULTIPLIERS[0], counter[2] * _MULTIPLIERS[1]
        counter = [
            (second >> half) ^ counter[1] ^ np.uint64(key[0]),
            second & mask,
            (first >> half) ^ counter[3] ^ np.uint64(key[1]),
            first & mask,
        ]
        key = [(word + step) & _WORD for word, step in zip(key, _KEY_STEPS, strict=True)]
    return np.stack(counter, axis=1).reshape(-1)[:count].astype(np.uint32)


@kernel("Dropout")
def dropout(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = mask · src / (1 − probability)."""
    src = wide(inputs[0])
    seed, offset = (int(value.reshape(())) & (1 << 64) - 1 for value in inputs[1:3])
    probability = float(inputs[3].reshape(()))
    threshold = np.uint32(min(max(probability, 0.0), 1.0) * np.float64(_WORD))
    mask = (philox(src.size, seed, offset) > threshold).reshape(src.shape)
    scale = 0.0 if probability >= 1 else 1 / (1 - probability)
    store(outputs[0], np.where(mask, src * src.dtype.type(scale), 0))
    if len(outputs) > 1:
        np.copyto(outputs[1], mask)
