"""Memory: whatever is passed as an array, nothing is read or written beyond it, and nothing that was freed.

What would crash without the checks runs in a child process, under an allocator that poisons what is freed.
"""

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import weakref

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from dlpack import DLTensor, Legacy
from onednn_graph.graph.runtime.arrays import as_array, pinned
from strategies import BACKENDS

START = """
import ctypes, gc, mmap
import numpy as np
import onednn_graph as og

def compiled(backend, kind="ReLU", count=1, shape=(64, 64), engine=None):
    graph = og.Graph()
    inputs = [graph.input(f"x{i}", "f32", shape) for i in range(count)]
    graph.op(kind, *inputs, name="y")
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    return partition.compile(engine=engine)

x = np.arange(-2048, 2048, dtype=np.float32).reshape(64, 64)
expected = np.maximum(x, 0)
"""


def survives(body, backend):
    """Runs code in a child process; it must come to its end."""
    run = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            START + f"backend = {backend!r}\n" + textwrap.dedent(body) + "\nprint('came to its end')",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MALLOC_PERTURB_": "219"},
    )
    assert run.stdout.endswith("came to its end\n"), run.stderr[-3000:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_subclass_that_lies_about_itself(backend):
    """What it says of address, shape, strides, size and flags does not count."""
    survives(
        """
        class Liar(np.ndarray):
            @property
            def __array_interface__(self):
                return {"version": 3, "shape": self.shape, "typestr": "<f4", "data": (64, False)}
            @property
            def shape(self): return (64, 64)
            @property
            def strides(self): return (256, 4)
            @property
            def dtype(self): return np.dtype(np.float32)
            @property
            def size(self): return 4096
            @property
            def nbytes(self): return 16384
            @property
            def ctypes(self): raise RuntimeError
            def view(self, *args): return self

        class Wide(np.ndarray):
            @property
            def shape(self): return (64, 64)
            @property
            def strides(self): return (256, 4)

        made = compiled(backend)
        honest = x.view(Liar)
        assert np.array_equal(made.execute(None, [honest])[0], expected)
        out = np.zeros_like(x).view(Liar)
        (given,) = made.execute(None, [x], [out])
        assert given is out
        assert np.array_equal(np.asarray(out), expected)
        for lies in (np.zeros(4, np.float32).view(Wide), np.zeros((64, 64), np.uint8).view(Liar)):
            for call in (
                lambda: made.execute(None, [lies]),
                lambda: made.execute(None, [x], [lies]),
                lambda: made.bind([lies], [np.zeros_like(x)]),
                lambda: made.bind([x], [lies]),
                lambda: og.Tensor(og.LogicalTensor(0, "f32", (64, 64)), lies),
                lambda: made.execute(None, [type("T", (), {"__array__": lambda self, *a, **k: lies})()]),
            ):
                try:
                    call()
                except (og.ShapeError, og.DataTypeError):
                    pass
                else:
                    raise AssertionError("taken")
        """,
        backend,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_bound_arrays_that_are_resized(backend):
    """Also by force, and when what was bound is a view of them."""
    survives(
        """
        made = compiled(backend)
        source, target = x.copy(), np.zeros_like(x)
        flat = np.zeros(4096, np.float32)
        bound = made.bind([source], [target])
        viewing = made.bind([source], [flat.reshape(64, 64)])
        for array in (source, target, flat):
            try:
                array.resize(1 << 22, refcheck=False)
            except ValueError:
                pass
        filler = [np.full(1 << 14, 0xEE, np.uint8) for _ in range(200)]
        bound(), viewing()
        assert all((one == 0xEE).all() for one in filler)
        assert np.array_equal(target, expected) and np.array_equal(flat.reshape(64, 64), expected)
        """,
        backend,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_bound_arrays_and_engines_that_their_owner_drops(backend):
    survives(
        """
        engine = og.Engine()
        made = compiled(backend, engine=engine)
        source, target = x.copy(), np.zeros_like(x)
        view = target[:]
        bound = made.bind([source], [target])
        del source, target, made
        gc.collect()
        filler = [np.full((64, 64), -1, np.float32) for _ in range(200)]
        bound()
        assert np.array_equal(view, expected)
        engine.close()
        view[...] = 5
        try:
            bound()
        except og.errors.ResourceError:
            pass
        else:
            raise AssertionError("it ran on a closed engine")
        assert (view == 5).all()
        del engine
        gc.collect()
        """,
        backend,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_capsule_that_is_given_twice(backend):
    """Who takes a tensor out of a capsule frees it: a second one must not get it."""
    survives(
        """
        class Shared:
            def __init__(self, capsule): self.capsule = capsule
            def __dlpack__(self, **options): return self.capsule
            def __dlpack_device__(self): return (1, 0)

        made = compiled(backend)
        capsule = x.copy().__dlpack__()
        tensor = og.Tensor(og.LogicalTensor(0, "f32", (64, 64)), Shared(capsule))
        for take in (np.from_dlpack, lambda one: made.execute(None, [one])):
            try:
                other = take(Shared(capsule))
            except (ValueError, og.ArgumentError):
                pass
            else:
                raise AssertionError("taken twice")
        gc.collect()
        filler = [np.full((64, 64), -1, np.float32) for _ in range(200)]
        assert np.array_equal(made.execute(None, [tensor])[0], expected)
        view = tensor.numpy()[3:]
        del tensor, capsule
        gc.collect()
        filler += [np.full((64, 64), -1, np.float32) for _ in range(200)]
        assert np.array_equal(view, x[3:])
        """,
        backend,
    )


class LyingVersioned(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 256))


class Exporter:
    def __init__(self, struct, name=b"dltensor"):
        self.struct = struct
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule = new(ctypes.addressof(struct), name, None)

    def __dlpack__(self, **options):
        return self.capsule


MEMORY = np.arange(6, dtype=np.float32)
SIZES = (ctypes.c_int64 * 2)(2, 3)


def exporter(**changes):
    values = {
        "data": MEMORY.ctypes.data,
        "device_type": 1,
        "ndim": 2,
        "code": 2,
        "bits": 32,
        "lanes": 1,
    } | changes
    values.setdefault("shape", ctypes.cast(SIZES, ctypes.POINTER(ctypes.c_int64)))
    return Exporter(Legacy(tensor=DLTensor(**values)))  # without a deleter


def test_what_an_exporter_may_say():
    np.testing.assert_array_equal(as_array(exporter(), "x"), MEMORY.reshape(2, 3))
    np.testing.assert_array_equal(as_array(exporter(ndim=1, byte_offset=4), "x"), MEMORY[1:3])
    assert as_array(exporter(ndim=0, shape=None), "x").shape == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shape": None}, "of 2 axes without sizes"),
        ({"ndim": -1}, "of -1 axes without sizes"),
        ({"data": None}, "without memory"),
        ({"device_type": 2}, "device type 2"),
        ({"lanes": 4}, "4 lanes"),
    ],
)
def test_what_an_exporter_must_not_say(changes, says):
    with pytest.raises(og.OneDNNGraphError, match=says):
        as_array(exporter(**changes), "x")


def test_a_later_dlpack_is_not_read():
    with pytest.raises(og.ArgumentError, match="DLPack 2, not 1"):
        as_array(Exporter(LyingVersioned(major=2), b"dltensor_versioned"), "x")


@pytest.mark.parametrize("old", [False, True])
def test_dlpack_memory_lives_as_long_as_it_is_seen_and_no_longer(old):
    class Owner:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            if old and options:
                raise TypeError("no such argument")
            return self.array.__dlpack__(**options)

    array = np.arange(1000, dtype=np.float32)
    count, gone = sys.getrefcount(array), []
    seen = as_array(Owner(array), "x")
    part = seen[5:]
    assert sys.getrefcount(array) > count
    del seen
    gc.collect()
    assert sys.getrefcount(array) > count
    np.testing.assert_array_equal(part, np.arange(5, 1000))
    del part
    gc.collect()
    assert sys.getrefcount(array) == count
    owner = Owner(array.copy())
    weakref.finalize(owner.array, gone.append, 1)
    seen = as_array(owner, "x")
    del owner
    gc.collect()
    assert not gone
    del seen
    gc.collect()
    assert gone


def test_pins_hold_the_owner_of_a_view():
    base = np.zeros(100)
    pins = pinned([base.reshape(10, 10)[2:]])
    with pytest.raises(ValueError, match="resize"):
        base.resize(10_000, refcheck=False)
    del pins
    gc.collect()
    base.resize(200, refcheck=False)


@pytest.mark.parametrize("value", [[], [1], {}, np.zeros(3), np.array(1.5), 1.0, True], ids=repr)
@pytest.mark.parametrize("name", ["outputs", "output_type"])
def test_what_no_eager_call_can_be_kept_for(name, value):
    """And what equals an argument of an earlier call is not taken for it."""
    x = np.ones((2, 3), np.float32)
    assert og.run_op("ReLU", [x], {}, outputs=1).shape == x.shape
    with pytest.raises(og.OneDNNGraphError, match=name):
        og.run_op("ReLU", [x], {}, **{name: value})


# --- subclasses and odd memory as arguments ---------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [np.matrix, np.recarray, "memmap"])
def test_subclasses_are_taken_and_come_back(backend, kind, tmp_path):
    """As their memory is, without the meaning that a class gives to operators."""
    values = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)

    def made_of(array):
        if kind == "memmap":
            mapped = np.memmap(tmp_path / f"{id(array)}.bin", np.float32, "w+", shape=array.shape)
            mapped[...] = array
            return mapped
        return array.copy().view(kind)

    a, out = made_of(values), made_of(np.zeros_like(values))
    result = og.multiply(a, a, backend=backend, out=out)
    assert result is out
    np.testing.assert_array_equal(np.asarray(out), values * values)
    plain = og.multiply(a, a, backend=backend)
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, values * values)


def layouts_of(array):
    """The same elements in memory of every kind."""
    spaced = np.zeros((*array.shape, 2), array.dtype)
    shifted = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    yield "as it is", array.copy()
    yield "Fortran order", np.asfortranarray(array)
    yield "reversed", np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    yield "big-endian", array.astype(array.dtype.newbyteorder(">"))
    yield "unaligned", shifted
    yield "gaps", spaced[..., 1]
    room = np.zeros((array.shape[0] + 2, array.shape[1] + 3), array.dtype)
    yield "a window", room[1:-1, 2:-1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_outputs_in_memory_of_every_kind_write_nothing_else(backend, dtype):
    values = np.arange(-30, 30).astype(dtype).reshape(6, 10)
    names = [name for name, _ in layouts_of(values)]
    for name in names:
        if name == "big-endian" and dtype is not np.float32:
            continue  # ml_dtypes has one byte order
        target = dict(layouts_of(values))[name]
        owner = target if target.base is None else target.base
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        target[...] = 77
        before = owner.copy()
        given = og.abs(values, out=target, backend=backend)
        assert given is target
        np.testing.assert_array_equal(target.astype(np.float32), np.abs(values.astype(np.float32)))
        target[...] = 77
        assert owner.tobytes() == before.tobytes(), name


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_nothing_is_computed_of_nothing(backend, shape):
    empty = np.zeros(shape, np.float32)
    assert og.add(empty, empty, backend=backend).shape == shape
    out = np.zeros(shape, np.float32)
    assert og.add(empty[..., ::-1], np.broadcast_to(np.float32(1), shape), out=out, backend=backend) is out


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_that_must_not_be_written(backend):
    values = np.ones((4, 4), np.float32)
    immutable = np.frombuffer(bytes(64), np.float32).reshape(4, 4)
    hidden = immutable.view(np.matrix)
    for target in (immutable, hidden, np.broadcast_to(np.float32(0), (4, 4))):
        with pytest.raises(og.ArgumentError, match="writeable"):
            og.relu(values, out=target, backend=backend)
    assert not immutable.any()
