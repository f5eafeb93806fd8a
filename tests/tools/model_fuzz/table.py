"""What draws a line, how often, and for which ranks."""

from __future__ import annotations

from . import algebra, flow, kinds, layers, masks, modules
from .kinds import Kind

ANY = range(7)
SOME = range(1, 7)
KINDS: tuple[tuple[Kind, float, range], ...] = (
    (kinds.unary, 3, ANY),
    (kinds.binary, 3, ANY),
    (kinds.residual, 1, ANY),
    (kinds.with_held, 2, ANY),
    (kinds.with_number, 0.7, ANY),
    (kinds.counted, 0.7, SOME),
    (kinds.reduction, 1.2, SOME),
    (kinds.softmax, 1, SOME),
    (kinds.shifted, 2, SOME),
    (kinds.indexed, 0.7, SOME),
    (kinds.reshaped, 3, SOME),
    (kinds.in_place, 1.2, SOME),
    (kinds.remembered, 0.15, SOME),
    (layers.linear, 2, SOME),
    (layers.products, 1.5, range(2, 6)),
    (layers.norm_last, 1, range(2, 7)),
    (layers.norm_channels, 1, range(2, 6)),
    (layers.attention, 3, range(3, 4)),
    (layers.sequence, 1.5, range(3, 4)),
    (layers.convolution, 3, range(3, 6)),
    (layers.pooling, 1.5, range(3, 6)),
    (layers.resized, 0.7, range(3, 6)),
    (layers.padded, 0.7, SOME),
    (layers.of_images, 2, range(4, 5)),
    (masks.masked, 1.2, SOME),
    (masks.integers, 1.2, SOME),
    (masks.gathered, 1.2, SOME),
    (masks.ordered, 0.8, SOME),
    (algebra.algebra, 0.8, range(2, 6)),
    (algebra.odd, 1.2, SOME),
    (algebra.cast, 0.5, SOME),
    (algebra.scalar, 0.7, ANY),
    (algebra.loss, 0.4, SOME),
    (algebra.spectral, 0.2, SOME),
    (flow.branch, 0.35, SOME),
    (flow.modes, 0.5, SOME),
    (flow.called, 0.9, SOME),
    (flow.written, 0.7, SOME),
    (modules.convolved, 3, range(3, 6)),
    (modules.recurrent, 0.5, range(3, 4)),
    (modules.attended, 2, range(3, 4)),
    (modules.viewed, 1.5, SOME),
    (modules.windows, 1, range(4, 5)),
)
