"""`from_torch`: products of integers, exact but for what overflows, and types that have no place."""

import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from test_from_torch import Apply, check, normal  # noqa: E402 -- torch comes first

nn, F = torch.nn, torch.nn.functional


def whole(*shape, most=99, dtype=torch.int64, seed=0):
    return torch.randint(-most, most, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


PRODUCTS = {
    **{
        f"matrices of {dtype}": (torch.matmul, whole(3, 4, dtype=dtype), whole(4, 5, dtype=dtype, seed=1))
        for dtype in (torch.int64, torch.int32, torch.int8)
    },
    "matrices of u8": (torch.matmul, whole(3, 4).abs().byte(), whole(4, 5).abs().byte()),
    "what overflows": (torch.matmul, whole(3, 4, most=2**62), whole(4, 5, most=2**62, seed=1)),
    "beyond what doubles hold": (torch.matmul, whole(3, 4, most=2**30), whole(4, 5, most=2**30, seed=1)),
    "bytes": (torch._int_mm, whole(32, 16, dtype=torch.int8), whole(16, 8, dtype=torch.int8, seed=1)),
    "batches": (torch.bmm, whole(2, 3, 4), whole(2, 4, 5, seed=1)),
    "batches by one": (torch.matmul, whole(2, 3, 4), whole(4, 5, seed=1)),
    "a layer": (F.linear, whole(3, 4), whole(5, 4, seed=1), whole(5)),
    "with what is added": (torch.addmm, whole(5), whole(3, 4), whole(4, 5, seed=1)),
    "vectors": (torch.matmul, whole(3, 4), whole(4, seed=1)),
    "indices": (lambda a, b: torch.einsum("ij,kj->ik", a, b), whole(3, 4), whole(5, 4, seed=1)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_integers_are_exact(name):
    function, *inputs = PRODUCTS[name]
    check(Apply(function), *inputs, tolerance=0)


class Eighths(nn.Module):
    """A weight of 8-bit floating point, converted when it is used."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Buffer(normal(4, 3).to(torch.float8_e4m3fn))
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


def test_a_buffer_of_8_bit_floats_that_is_converted():
    check(Eighths(), normal(2, 3))


def test_a_buffer_of_8_bit_floats_is_no_state_of_training():
    with pytest.raises(og.DataTypeError, match="no type for; convert it to f32"):
        og.from_torch(Eighths(), (normal(2, 3),), training=True)


def test_an_input_of_8_bit_floats_says_what_to_do():
    with pytest.raises(
        og.UnsupportedError, match="float8_e5m2 has no counterpart; convert it before, to torch.float32"
    ):
        og.from_torch(Apply(lambda x: x.float() * 2), (normal(3).to(torch.float8_e5m2),))


@pytest.mark.parametrize("draw", [torch.randn_like, lambda x: torch.randint(0, 5, (3,)), torch.bernoulli])
def test_what_draws_says_what_to_do(draw):
    with pytest.raises(
        og.UnsupportedError, match="makes random numbers.*draw them before and give them as an input"
    ):
        og.from_torch(Apply(lambda x: x + draw(x.abs().clamp(0, 1))), (normal(3),))
