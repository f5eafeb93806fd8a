"""What may be passed as an array: any memory, any exporter; without a copy where that is possible."""

import ctypes

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from dlpack import DLTensor, Legacy, Versioned
from onednn_graph.graph.runtime.arrays import as_array, in_seven_bits
from oracle import Problem
from strategies import BACKENDS, check, eagerly

PROBLEM = Problem(batch=2, channels=(3, 4), size=(6, 5), kernel=(3, 2))


def reversed_rows(a):
    return np.ascontiguousarray(a[:, ::-1])[:, ::-1]


def big_endian(a):
    return a.astype(a.dtype.newbyteorder(">"))


def unaligned(a):
    memory = np.zeros(a.nbytes + 1, np.uint8)
    view = memory[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    assert not view.flags.aligned
    return view


def gaps(a):
    memory = np.full((*a.shape, 3), 99, a.dtype)
    memory[..., 1] = a
    return memory[..., 1]


def read_only(a):
    a.flags.writeable = False
    return a


class OnlyArray:
    """Has `__array__` and nothing else."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class OnlyDlpack:
    """NumPy's own exporter behind a foreign class."""

    def __init__(self, array, *, old=False):
        self.array = array
        self.old = old

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)


MEMORY = {
    "as it is": lambda a: a,
    "Fortran order": np.asfortranarray,
    "negative strides": reversed_rows,
    "big-endian": big_endian,
    "unaligned": unaligned,
    "gaps between elements": gaps,
    "read-only": read_only,
    "__array__": OnlyArray,
    "DLPack": OnlyDlpack,
    "DLPack before 1.0": lambda a: OnlyDlpack(a, old=True),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", MEMORY)
def test_inputs_in_any_memory(how, backend):
    make = MEMORY[how]
    check(PROBLEM, eagerly(PROBLEM, backend, [make(array) for array in PROBLEM.arrays()]))


def test_a_memory_mapped_file(tmp_path):
    paths = []
    for number, array in enumerate(PROBLEM.arrays()):
        paths.append(tmp_path / f"{number}.npy")
        np.save(paths[-1], array)
    check(PROBLEM, eagerly(PROBLEM, None, [np.load(path, mmap_mode="r") for path in paths]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "how", ["Fortran order", "negative strides", "big-endian", "unaligned", "gaps between elements"]
)
def test_outputs_in_any_memory(how, backend):
    out = MEMORY[how](np.zeros(PROBLEM.weights_shape, np.float32))
    assert eagerly(PROBLEM, backend, out=out) is out
    np.testing.assert_array_equal(out.astype(np.float32), PROBLEM.expected())


def test_a_broadcast_input():
    """Zero strides: one gradient for every image."""
    src, _ = PROBLEM.arrays()
    one = np.array([1.0, -2, 3, 1], np.float32)
    diff_dst = np.broadcast_to(one, (2, *PROBLEM.out, 4))
    expected = eagerly(PROBLEM, "numpy", [src, diff_dst.copy()])
    for backend in ("numpy", None):
        np.testing.assert_array_equal(eagerly(PROBLEM, backend, [src, diff_dst]), expected)


def test_outputs_that_are_refused():
    once = np.zeros(PROBLEM.weights_shape, np.float32)
    with pytest.raises(og.ArgumentError, match="read-only"):
        eagerly(PROBLEM, None, out=read_only(once.copy()))
    with pytest.raises(og.ArgumentError, match="read-only|place of its own"):
        eagerly(PROBLEM, None, out=np.broadcast_to(np.float32(0), PROBLEM.weights_shape))
    stacked = np.lib.stride_tricks.as_strided(once, once.shape, (4, 4, 4, 4))
    with pytest.raises(og.ArgumentError, match="place of its own"):
        eagerly(PROBLEM, None, out=stacked)
    with pytest.raises(og.DataTypeError, match="f32"):
        eagerly(PROBLEM, None, out=once.astype(np.float64))
    with pytest.raises(og.ArgumentTypeError, match="written"):
        eagerly(PROBLEM, None, out=once.tolist())


# --- DLPack ---------------------------------------------------------------------------------------------


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


EXPORTED = []
"""Exporters live on, as memory that is lent does until its deleter is called, which these don't have."""


class Exporter:
    """A capsule with freely chosen fields."""

    def __init__(self, array, *, strides=True, versioned=False, flags=0, name=None, **fields):
        self.array = array
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.steps = (ctypes.c_int64 * array.ndim)(*(s // max(array.itemsize, 1) for s in array.strides))
        code = {"f": 2, "i": 0, "u": 1, "V": 4}[array.dtype.kind]
        tensor = {
            "data": array.ctypes.data,
            "device_type": 1,
            "ndim": array.ndim,
            "code": code,
            "bits": array.itemsize * 8,
            "lanes": 1,
            "shape": self.shape,
            "strides": self.steps if strides else None,
            **fields,
        }
        self.managed = (
            Versioned(major=1, flags=flags, tensor=DLTensor(**tensor))
            if versioned
            else Legacy(tensor=DLTensor(**tensor))
        )
        self.name = name or (b"dltensor_versioned" if versioned else b"dltensor")
        EXPORTED.append(self)

    def __dlpack__(self, **options):
        return _new(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("strides", [False, True])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint8, np.int64]
)
def test_capsules_of_every_kind(dtype, strides, versioned):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    if strides:
        array = array.transpose(2, 0, 1)
    view = as_array(Exporter(array, strides=strides, versioned=versioned), "x")
    assert view.dtype == array.dtype
    assert np.shares_memory(view, array)
    np.testing.assert_array_equal(view.astype(np.float64), array.astype(np.float64))


def test_byte_offset_and_read_only_flag():
    array = np.arange(6, dtype=np.float32)
    view = as_array(Exporter(array, byte_offset=8, versioned=True, flags=1, ndim=0), "x")
    assert view == 2
    assert not view.flags.writeable
    assert as_array(Exporter(array, versioned=True), "x").flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_empty_capsules_may_have_no_pointer(dtype):
    view = as_array(Exporter(np.empty((0, 3), dtype), data=None), "x")
    assert view.shape == (0, 3)
    assert view.dtype == dtype


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"device_type": 2}, og.ArgumentError, "device type 2; copy it to the CPU"),
        ({"lanes": 4}, og.DataTypeError, "4 lanes"),
        ({"code": 5, "bits": 64}, og.DataTypeError, "type code 5"),
        ({"bits": 4}, og.DataTypeError, "4 bits"),
        ({"name": b"used_dltensor"}, og.ArgumentError, "no DLPack capsule"),
    ],
)
def test_capsules_that_are_refused(fields, error, words):
    with pytest.raises(error, match=words):
        as_array(Exporter(np.zeros(3, np.float32), **fields), "input 'x'")


def test_an_exporter_that_fails():
    class Broken:
        def __dlpack__(self, **options):
            raise BufferError("the tensor requires grad")

    class Lying:
        def __dlpack__(self, **options):
            return 5

    with pytest.raises(og.ArgumentError, match="requires grad"):
        as_array(Broken(), "input 'x'")
    with pytest.raises(og.ArgumentError, match="no DLPack capsule"):
        as_array(Lying(), "input 'x'")


def test_an_exporters_memory_lives_as_long_as_the_view():
    view = as_array(OnlyDlpack(np.arange(10_000, dtype=np.float32)), "x")
    np.testing.assert_array_equal(view, np.arange(10_000))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_torch_tensors(backend, dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra test-oracles)")
    problem = Problem(batch=2, channels=(3, 4), size=(6, 5), kernel=(3, 2), data_format="NCX", dtype=dtype)
    torch_type = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    src, diff_dst = (torch.from_numpy(a.astype(np.float32)).to(torch_type) for a in problem.arrays())
    out = torch.zeros(problem.weights_shape, dtype=torch_type)
    assert np.shares_memory(as_array(src, "x"), np.asarray(as_array(src, "x")))
    assert as_array(src, "x").ctypes.data == src.data_ptr()
    check(problem, eagerly(problem, backend, [src, diff_dst]))
    eagerly(problem, backend, [src.to(memory_format=torch.channels_last), diff_dst], out=out)
    np.testing.assert_array_equal(out.float().numpy(), problem.expected().astype(np.float32))
    with pytest.raises(og.ArgumentError, match="detached"):
        eagerly(problem, backend, [src.clone().requires_grad_(), diff_dst])
    negated = torch.zeros(3, dtype=torch.complex64).conj().imag
    with pytest.raises(og.ArgumentError, match="resolve_neg"):
        as_array(negated, "x")


@pytest.mark.parametrize("place", [0, 4095, 4096, 9999, None])
@pytest.mark.parametrize("value", [-65, 65, -128, 127, -64, 64])
def test_seven_bits_are_seen_wherever_the_others_lie(place, value):
    array = np.zeros((100, 100), np.int8)
    if place is not None:
        array.reshape(-1)[place] = value
    for one in (array, array.T, array[::-1]):
        assert in_seven_bits(one) == (place is None or abs(value) <= 64)
    assert not in_seven_bits(array.astype(np.int16))
    assert not in_seven_bits(array[:0])
