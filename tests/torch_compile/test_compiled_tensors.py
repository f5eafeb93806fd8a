"""Tensors in all ways in which they lie and alias, and in types that only torch has."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

from torch_compiled import (  # noqa: E402 -- torch comes first
    Network,
    assert_near,
    assert_same_state,
    compiled,
    functions,
    in_double,
    normal,
    seeded,
)

nn = torch.nn
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning"),
]


def cloned(x):
    y = x.clone()
    x.add_(1)
    return y


def exchanged(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x + y


def copied_and_emptied(x, y):
    y.copy_(x.view_as(x))
    x.zero_()
    return y * 2


def transposed_into_itself(x):
    x.copy_(x.t().contiguous())
    return x.sum()


def shifted(x, y):
    x[1:].copy_(y[:-1])
    return x.relu()


def doubled_view(x):
    view = x.view(-1)
    view.mul_(2)
    return view


def input_twice(x):
    return x, x


def views_of_one_result(x):
    y = x + 1
    return y, y, y.view(-1), y.t()


def views_of_the_input(x):
    return x.t(), x[1:], x.view(2, 8), x * 2


def turned_in_place(x):
    x.t_()
    return x


def chained(x, y):
    z = x * 2
    z.add_(y)
    z[0] = 7
    x.relu_()
    return z, x - y


def constant_result(x):
    return torch.zeros(3), x + torch.arange(4.0)


def empty_result(x):
    return x[:0] * 2, x


ALIASING = [
    cloned, exchanged, copied_and_emptied, transposed_into_itself, shifted, doubled_view, input_twice,
    views_of_one_result, views_of_the_input, turned_in_place, chained, constant_result, empty_result,
]  # fmt: skip


def sharing(tensors):
    """Which tensors share their memory."""
    return [[a.untyped_storage()._cdata == b.untyped_storage()._cdata for a in tensors] for b in tensors]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("function", ALIASING)
def test_what_aliases_and_is_written_to_is_as_in_eager(function, mode):
    count = function.__code__.co_argcount
    mine = [
        torch.randint(-9, 9, (4, 4), generator=torch.Generator().manual_seed(n)).float() for n in range(count)
    ]
    theirs = [x.clone() for x in mine]
    run = compiled(function)
    with mode():
        for _ in range(3):
            made, expected = run(*mine), function(*theirs)
            made = [*made, *mine] if isinstance(made, tuple) else [made, *mine]
            expected = [*expected, *theirs] if isinstance(expected, tuple) else [expected, *theirs]
            for a, b in zip(made, expected, strict=True):
                assert a.dtype == b.dtype
                assert a.stride() == b.stride()
                assert torch.equal(a, b)
            assert sharing(made) == sharing(expected)


def test_results_are_new_at_each_call():
    module = seeded(Network).eval()
    run = compiled(module)
    with torch.no_grad():
        first = run(normal(2, 3, 8, 8))
        kept = first.clone()
        second = run(normal(2, 3, 8, 8, seed=1))
        second.zero_()
        assert torch.equal(first, kept)


def test_a_constant_result_may_be_written_to():
    run = compiled(constant_result)
    x = torch.ones(4)
    run(x)[0].add_(5)
    assert torch.equal(run(x)[0], torch.zeros(3))


def test_in_place_on_what_has_a_gradient():
    def function(x, y):
        z = x * 2
        z.add_(y).relu_()
        y.mul_(3)
        return (z * y).sum()

    x, y = normal(4, 4), normal(4, 4, seed=1)
    mine, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    made, other = y.clone(), y.double()
    compiled(function)(mine, made).backward()
    function(theirs, other).backward()
    assert_near(mine.grad, theirs.grad)
    assert_near(made, other)


LAYOUTS = {
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "every second": lambda x: x.repeat_interleave(2, 3)[..., ::2],
    "cut out": lambda x: torch.nn.functional.pad(x, (1, 2, 3, 4))[:, :, 3:-4, 1:-2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "with offset": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
}


@pytest.mark.parametrize("weights", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, weights):
    module = seeded(Network).to(memory_format=weights)
    expected, x = in_double(module, normal(4, 3, 8, 8))
    x = LAYOUTS[layout](x)
    mine = LAYOUTS[layout](x.float().contiguous())
    assert mine.stride() == x.stride()
    made, other = compiled(module)(mine), expected(x)
    assert_near(made, other)
    made.square().mean().backward()
    other.square().mean().backward()
    assert_same_state(module, expected)


def test_images_stay_channels_last():
    convolution = seeded(lambda: nn.Conv2d(3, 8, 3)).to(memory_format=torch.channels_last)
    x = normal(2, 3, 8, 8).to(memory_format=torch.channels_last)
    made = compiled(convolution)(x)
    assert made.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.float16, torch.bfloat16])
def test_models_of_other_types(dtype):
    module = seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))).to(dtype)
    expected = copy.deepcopy(module)
    x = normal(3, 6).to(dtype)
    made, other = compiled(module)(x), expected(x)
    assert made.dtype == dtype
    made.abs().square().sum().backward()
    other.abs().square().sum().backward()
    wide = torch.complex128 if dtype.is_complex else torch.float64
    tolerance = max(1e-6, 4 * torch.finfo(dtype).eps)
    pairs = [
        (made, other),
        *zip(*[[p.grad for p in m.parameters()] for m in (module, expected)], strict=True),
    ]
    for a, b in pairs:
        assert a.dtype == b.dtype
        a, b = a.detach().to(wide), b.detach().to(wide)
        assert (a - b).norm() <= tolerance * b.norm()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool])
def test_integers(dtype):
    def function(x, y):
        return x + y, x * y, x // (y | 1), (x > y).sum(), x.cumsum(0), torch.where(x == y, x, y), x.max()

    x, y = (torch.randint(0, 2 if dtype is torch.bool else 9, (5, 4)).to(dtype) for _ in range(2))
    if dtype is torch.bool:
        function = lambda x, y: (x ^ y, x & y, x.sum(), x.any(), torch.where(x, y, ~y))  # noqa: E731
    for made, other in zip(compiled(function)(x, y), function(x, y), strict=True):
        assert made.dtype == other.dtype
        assert torch.equal(made, other)


def test_double_precision_is_torchs():
    module = seeded(Network).double()
    compiled(module)(normal(2, 3, 8, 8).double()).sum().backward()
    for function in functions(module):
        [program] = function.programs.values()
        regions = [step for step in program.steps if hasattr(step, "region")]
        assert not [made for step in regions for made in step.outputs if made.dtype.is_floating_point]


@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (1, 3, 8, 8)])
def test_small_batches(shape):
    module = seeded(Network)
    module.norm = nn.GroupNorm(2, 8)
    expected, x = in_double(module, normal(*shape))
    made, other = compiled(module)(x.float()), expected(x)
    assert made.shape == other.shape
    made.sum().backward()
    other.sum().backward()
    assert_same_state(module, expected)
    module.eval()
    with torch.no_grad():
        assert compiled(module)(x.float()).shape == other.shape


def test_scalars_and_numbers():
    def function(x, scale, power):
        return x * scale + power, x.sum() ** power, x.mean().item()

    x = normal(3)
    made, expected = compiled(function)(x, 2.5, 3), function(x.double(), 2.5, 3)
    assert_near(made[0], expected[0])
    assert_near(made[1], expected[1])
    assert made[2] == pytest.approx(expected[2])


def test_trees_of_arguments():
    def function(given, *, factor=None):
        x, [y, z] = given["x"], given["pair"]
        return {"sum": x + y, "rest": (z * 2 if factor is None else z * factor, None, "text")}

    x, y, z = (normal(3, seed=seed) for seed in range(3))
    given = {"x": x, "pair": [y, z]}
    made = compiled(function)(given, factor=y)
    assert torch.equal(made["sum"], x + y)
    assert torch.equal(made["rest"][0], z * y)
    assert made["rest"][1:] == (None, "text")


def test_a_model_on_no_gpu_is_told_so_by_torch():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((RuntimeError, AssertionError), match=r"CUDA|cuda|NVIDIA"):
        compiled(lambda x: x.cuda() + 1)(normal(3))
    assert torch.equal(compiled(lambda x: x + 1)(torch.ones(3)), torch.full((3,), 2.0))


def test_tensors_without_memory_are_torchs():
    x = torch.empty(3, 4, device="meta")
    made = compiled(lambda x: (x @ x.t()).relu())(x)
    assert made.device.type == "meta"
    assert made.shape == (3, 3)


def test_sparse_matrices_are_torchs():
    dense, x = normal(4, 4).relu(), normal(4, 3, seed=1)
    run = compiled(lambda matrix, x: (torch.sparse.mm(matrix, x) + 1).relu())
    assert_near(run(dense.to_sparse(), x), (dense.double() @ x.double() + 1).relu())


def test_complex_parts_are_torchs():
    def function(x):
        spectrum = torch.fft.rfft(x)
        return torch.fft.irfft(spectrum * spectrum.conj()).relu(), spectrum.abs()

    x = normal(4, 8)
    for made, other in zip(compiled(function)(x), function(x.double()), strict=True):
        assert_near(made, other)


DIVISIONS = {
    "down": lambda x, y: (x + 1) // y,
    "towards zero": lambda x, y: torch.div(x + 1, y, rounding_mode="trunc"),
    "remainder": lambda x, y: (x + 1) % y,
    "remainder of the dividend": lambda x, y: torch.fmod(x + 1, y),
}


@pytest.mark.parametrize("division", DIVISIONS.values(), ids=DIVISIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_whole_numbers_divided_by_0_are_torchs_error(dtype, division):
    """NumPy makes 0 of them."""
    x, run = torch.tensor([7, 3, 4], dtype=dtype), compiled(division)
    for y in (torch.tensor([2, 1, 3], dtype=dtype), 2):
        assert torch.equal(run(x, y), division(x, y))
    for y in (torch.tensor([2, 0, 3], dtype=dtype), 0):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            run(x, y)


@pytest.mark.parametrize("product", [torch.mm, torch._int_mm, lambda x, y: torch.addmm(y[0], x, y)])
def test_whole_numbers_are_multiplied_by_torch(product):
    """It has kernels for them, and NumPy has none that are fast."""
    dtype = torch.int8 if product is torch._int_mm else torch.int64
    x, y = ((normal(32, 32, seed=seed) * 9).to(dtype) for seed in (0, 1))
    module = nn.Linear(4, 4)
    module.forward = lambda x, y: product(x, y) + module.bias[0]
    with torch.no_grad():
        made = compiled(module)(x, y)
    assert torch.equal(made, product(x, y) + module.bias[0])
    (function,) = functions(module)
    names = [step.name for program in function.programs.values() for step in program.steps]
    assert any("mm" in name for name in names)


def test_a_division_by_a_number_is_part_of_a_region():
    module = nn.Linear(4, 4)
    module.forward = lambda x: (x + 1) // 2 % 3 + module.weight
    with torch.no_grad():
        compiled(module)(torch.arange(4))
    (function,) = functions(module)
    assert [step.name for program in function.programs.values() for step in program.steps] == ["region"]


SCATTERS = {
    "a value": lambda x, places: (x + 1).scatter(0, places, 1.5),
    "a tensor": lambda x, places: (x + 1).scatter(0, places, x),
    "added": lambda x, places: (x + 1).scatter_add(0, places, x),
    "reduced": lambda x, places: (x + 1).scatter_reduce(0, places, x, "amax"),
    "bags": lambda x, places: nn.functional.embedding_bag(places, x + 1),
}


@pytest.mark.parametrize("scatter", SCATTERS.values(), ids=SCATTERS)
@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_of_a_scatter_beyond_its_target_is_torchs_error(scatter, index):
    """NumPy counts what is below 0 from the end."""
    x, run = torch.arange(12.0).reshape(3, 4), compiled(scatter)
    with torch.no_grad():
        good = torch.tensor([[2, 0, 1, 0]])
        assert torch.equal(run(x, good), scatter(x, good))
        with pytest.raises(RuntimeError, match="out of bounds|valid range"):
            run(x, torch.tensor([[2, index, 1, 0]]))


LOOKS = {
    "expand": lambda x: x.expand(2, -1),
    "as_strided": lambda x: x.as_strided((2, 1 << 20), (0, 1)),
    "unfold": lambda x: x.unfold(0, 4, 1),
    "split": lambda x: x.expand(2, -1).split(1 << 19, 1)[1],
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_look_at_a_constant_may_be_written_to(look):
    """It is larger than what is computed once, and what it looks at is not."""

    def function(x):
        return look(torch.zeros(1 << 20)), x + 1

    run, x = compiled(function), torch.ones(3)
    with torch.no_grad():
        run(x)[0][0].fill_(1)
        made, _ = run(x)
        assert not made.any()
        assert made.stride() == function(x)[0].stride()


@pytest.mark.parametrize("gradients", [False, True])
def test_constant_results_share_memory_as_in_eager_torch(gradients):
    def function(x):
        zeros = torch.zeros(4)
        return zeros, zeros[:2], zeros.view(2, 2).t(), torch.ones(2).expand(3, 2), x + 1

    run, x = compiled(function), torch.ones(3)
    with torch.set_grad_enabled(gradients):
        for _ in range(2):
            whole, first, turned, spread, _ = run(x)
            assert not whole.any()
            whole += 1
            assert first.all()
            assert turned.all()
            assert (turned.stride(), spread.stride()) == ((1, 2), (0, 1))


@pytest.mark.parametrize("gradients", [False, True])
def test_a_result_whose_elements_share_places_is_not_made_one_by_one(gradients):
    def function(x):
        return (x[:1] + 1).expand(3, 4), (x + 1).relu().unsqueeze(0).expand(2, 3, 4)

    x = normal(3, 4).requires_grad_(gradients)
    for made, other in zip(compiled(function)(x), function(x), strict=True):
        assert_near(made, other)
        assert made.stride() == other.stride()


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_beyond_a_table_is_torchs_error(index):
    module = nn.Embedding(4, 3)
    with torch.no_grad(), pytest.raises(IndexError):
        compiled(module)(torch.tensor([1, index]))


@pytest.mark.parametrize("place", ["argument", "inside", "buffer", "view"])
def test_the_imaginary_part_of_a_conjugate(place):
    """What lies in its memory has the other sign."""
    z = torch.complex(torch.arange(64.0), torch.arange(64.0) - 7).reshape(8, 8)

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("part", z.conj().imag)

        def forward(self, x):
            if place == "inside":
                part = x.conj().imag
            elif place == "buffer":
                part = self.part
            else:
                part = x.t()[1:] if place == "view" else x
            return part @ part.t() + part[:, :1], part.relu()

    given = z if place == "inside" else z.conj().imag
    module = Module()
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(given), module(given), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(4, 6), (64, 600)])
def test_extremes_of_what_is_infinite_or_no_number(shape):
    """Rows of scores that a mask hides altogether."""
    x = torch.arange(float(shape[0] * shape[1])).reshape(shape)
    x[0], x[1], x[2, 3] = float("-inf"), float("inf"), float("nan")

    def extremes(x):
        return x.amax(1), x.amin(1), x[:1].max(), x[1:2].min(), x.amax((0, 1), keepdim=True)

    torch.testing.assert_close(compiled(extremes)(x), extremes(x), rtol=0, atol=0, equal_nan=True)


def test_a_mask_of_numbers_that_becomes_one_of_truths_again():
    def hidden(x, mask):
        scores = x.masked_fill(mask, -9.0) + x.masked_fill(mask, -8.0)
        return scores, torch.where(mask, -9.0, 0.0) > -1, x.masked_fill(mask, -9.0).masked_fill(mask, 2.0) > 1

    x = torch.arange(24.0).reshape(4, 6) - 5
    torch.testing.assert_close(compiled(hidden)(x, x > 4), hidden(x, x > 4), rtol=0, atol=0)


def test_results_lie_as_traced_along_axes_of_one_element():
    """Torch's kernels look at these strides, too: its batch norm gives wrong gradients where they are others."""

    def function(x, held):
        return held - x.transpose(0, -1)

    x, held = normal(32, 9, 9), normal(1, 1, 9, 32)
    wanted = function(x, held)
    for grad in (False, True):
        made = compiled(function)(x.clone().requires_grad_(grad), held)
        assert made.stride() == wanted.stride()
        torch.testing.assert_close(made, wanted)


def test_batch_norm_gets_of_a_region_what_it_gets_of_eager_torch():
    x, held, ways = normal(32, 9, 9), normal(1, 1, 9, 32), normal(1, 9, 9, 32, seed=1)
    gradients = []
    for call in (lambda x, y: y - x.transpose(0, -1), compiled(lambda x, y: y - x.transpose(0, -1))):
        given = x.clone().requires_grad_()
        (nn.BatchNorm2d(9, affine=False)(call(given, held)) * ways).sum().backward()
        gradients.append(given.grad)
    assert_near(gradients[1], gradients[0])
