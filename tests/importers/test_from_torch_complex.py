"""Complex numbers inside a module: rotary embeddings as Llama's first, Fourier transforms, and what can't be said."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

torch = pytest.importorskip("torch")


INF = float("inf")


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *values):
        return self.function(*values)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def agrees(function, *values, room=2e-6):
    """What becomes of a function is what eager torch makes."""
    want = function(*values)
    (made,) = og.from_torch(Applied(function), values).compile()(*[v.numpy() for v in values]).values()
    np.testing.assert_allclose(
        made, want.numpy(), rtol=room, atol=room * float(want.abs().max()), strict=True
    )


class Rotary(torch.nn.Module):
    """Turns pairs of elements by angles that grow with the position, as a product of complex numbers."""

    def __init__(self, width, length, shares):
        super().__init__()
        angles = torch.outer(torch.arange(length), 1e4 ** -(torch.arange(0, width, 2) / width))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
        self.shares = shares

    def forward(self, x):
        batch, length, heads, width = x.shape
        pairs = torch.view_as_complex(x.float().reshape(batch, length, heads, width // 2, 2))
        turns = self.turns[:length].view(1, length, 1, width // 2)
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


@pytest.mark.parametrize("open_length", [False, True])
def test_rotary_embeddings(open_length):
    module, x = Rotary(8, 32, 1), normal(2, 5, 3, 8)
    sizes = {"x": {1: torch.export.Dim("length", min=2, max=32)}} if open_length else None
    graph = og.from_torch(module, (x,), dynamic_shapes=sizes)
    for length in (5, 9) if open_length else (5,):
        x = normal(2, length, 3, 8)
        (made,) = graph.compile()(x.numpy()).values()
        np.testing.assert_allclose(made, module(x).numpy(), rtol=1e-6, atol=1e-6)


def pair(a, b):
    return torch.complex(a, b)


ARITHMETIC = {
    "sum": lambda x, y: pair(x, y) + pair(y, y),
    "difference with a real one": lambda x, y: x - pair(x, y),
    "with a number": lambda x, y: 2 - pair(x, y) * 3 + 1,
    "a real one and a complex number": lambda x, y: (x + (2 + 1j)) * (1j - y) * (x - 1j),
    "over a complex number": lambda x, y: pair(x, y) / (2 - 1j),
    "a real one over": lambda x, y: x / pair(x[0] + 3, y[0]),
    "with a complex number": lambda x, y: pair(x, y) * (2 - 1j) + 1j,
    "product": lambda x, y: pair(x, y) * pair(y, x),
    "by a real one": lambda x, y: pair(x, y) * y,
    "quotient": lambda x, y: pair(x, y) / pair(y + 3, x),
    "over a real one": lambda x, y: pair(x, y) / (y.abs() + 1),
    "conjugate": lambda x, y: pair(x, y).conj() * pair(y, y),
    "exponential": lambda x, y: torch.exp(pair(x, y)),
    "polar": lambda x, y: torch.polar(x.abs(), y),
    "matrices": lambda x, y: pair(x, y) @ pair(y, x).transpose(-1, -2),
    "moved": lambda x, y: torch.cat([pair(x, y)[1:], pair(y, x)[:1]]).permute(1, 0).reshape(2, -1),
    "beside real ones": lambda x, y: torch.cat([pair(x, y), y]) - torch.stack([x, pair(y, x)]).reshape(8, 6),
    "padded": lambda x, y: torch.nn.functional.pad(pair(x, y), (1, 2), value=3.0),
    "padded by a complex number": lambda x, y: torch.constant_pad_nd(pair(x, y), (1, 2), 2 + 1j),
    "padded around": lambda x, y: torch.nn.functional.pad(pair(x, y)[None], (1, 2), mode="circular")[0],
    "behind a real one": lambda x, y: torch.cat([x, pair(x, y), torch.ones(4, 1)], 1),
    "with its mirror around": lambda x, y: torch.nn.functional.pad(pair(x, y), (1, 2), mode="reflect"),
    "by integers": lambda x, y: pair(x, y) * (4 * y).long() - (3 * x).int(),
    "over integers": lambda x, y: pair(x, y) / ((4 * y).long().abs() + 1),
    "summed": lambda x, y: pair(x, y).sum(0) - pair(y, x).mean(0),
    "parts": lambda x, y: pair(*pair(x, y).split(1)[0].unbind(0)[0].unsqueeze(0).real.chunk(2, 1)),
}


@each("name", ARITHMETIC)
def test_arithmetic(name):
    agrees(
        lambda x, y: torch.view_as_real(ARITHMETIC[name](x, y).resolve_conj()),
        normal(4, 6),
        normal(4, 6, seed=1),
    )


def test_the_angle_of_a_real_wave_has_the_sign_that_torch_gives_it():
    """The first and the middle wave of real numbers are real: of what lies below zero they turn by π, not by -π."""
    x = torch.tensor([[1.0, -3, 0.5, -1], [-2, -1, -1.5, -2], [0.25, 4, -1, 2]])
    agrees(lambda x: torch.fft.rfft(x).angle(), x)
    agrees(lambda x: torch.fft.rfft(x, dim=0)[0].angle(), x)


@each("function", ["real", "imag", "abs", "angle"])
def test_to_real_numbers(function):
    agrees(lambda x, y: getattr(torch, function)(pair(x, y)) + 0, normal(4, 6), normal(4, 6, seed=1))


@each("size", [1e-36, 1e-30, 1e30])
def test_squares_of_lengths_neither_overflow_nor_vanish(size):
    x, y = size * normal(4, 6), size * normal(4, 6, seed=1)
    agrees(lambda x, y: pair(x, y).abs(), x, y)
    agrees(lambda x, y: torch.view_as_real(pair(x, y) / pair(y, x)), x, y)


def test_the_length_of_zero_and_of_infinities():
    x, y = torch.tensor([0.0, -0.0, 3.0, INF, 1.0, -INF]), torch.tensor([0.0, 0.0, 4.0, 1.0, -INF, INF])
    made = og.from_torch(Applied(lambda x, y: pair(x, y).abs()), (x, y)).compile()(x, y).only
    np.testing.assert_array_equal(made, pair(x, y).abs().numpy())


@pytest.mark.filterwarnings("ignore:Casting complex values to real:UserWarning")
@each("dtype", [torch.float32, torch.float16, torch.int64])
def test_real_numbers_of_complex_ones_are_their_real_parts(dtype):
    agrees(lambda x, y: pair(3 * x, y).to(dtype) + 1, normal(4, 6), normal(4, 6, seed=1), room=0)


TRANSFORMS = {
    "forward": lambda x, how: torch.view_as_real(torch.fft.rfft(x, norm=how)),
    "whole": lambda x, how: torch.view_as_real(torch.fft.fft(x, dim=1, norm=how)),
    "back": lambda x, how: torch.fft.irfft(torch.fft.rfft(x, dim=1), x.shape[1], dim=1, norm=how),
    "back from whole": lambda x, how: torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(x), norm=how).real,
    "of images": lambda x, how: torch.fft.irfft2(torch.fft.rfft2(x) * 2, x.shape[-2:], norm=how),
    "of tokens": lambda x, how: torch.fft.fft(torch.fft.fft(x, dim=-1, norm=how), dim=-2).real,
    "of all": lambda x, how: torch.fft.fftn(x, norm=how).real,
    "shorter": lambda x, how: torch.fft.irfft(torch.fft.rfft(x)[..., :3], 4, norm=how),
}


@each("how", ["forward", "backward", "ortho"])
@each("size", [6, 7])
@each("name", TRANSFORMS)
def test_transforms(name, size, how):
    agrees(lambda x: TRANSFORMS[name](x, how), normal(2, 5, size), room=1e-5)


def test_what_can_not_be_said():
    x = normal(3, 4)
    with pytest.raises(og.UnsupportedError, match=r"return torch.view_as_real"):
        og.from_torch(Applied(lambda x: torch.complex(x, x) * 2), (x,))
    with pytest.raises(og.UnsupportedError, match=r"give torch.view_as_real"):
        og.from_torch(Applied(torch.view_as_real), (torch.complex(x, x),))
    with pytest.raises(og.UnsupportedError, match="no translation for it where numbers are complex"):
        og.from_torch(Applied(lambda x: torch.view_as_real(torch.sqrt(torch.complex(x, x)))), (x,))
    with pytest.raises(og.UnsupportedError, match="a Fourier transform of 5000 numbers; 4096 can be done"):
        og.from_torch(Applied(lambda x: torch.fft.rfft(x).abs()), (normal(5000),))
