"""NumPy for nodes by themselves, where results are exact: against ONNX's reference, on random shapes and values."""

import numpy as np
import pytest
from onednn_graph.graph.onnx.calls import Call
from onednn_graph.graph.onnx.detection import suppressed
from onednn_graph.graph.onnx.plain import PLAIN, plainly
from onednn_graph.graph.onnx.regions import region_averages
from onnx_oracle import helper, ints, numpy_helper, onnx, reference, rng

OPSET = 18
TRIALS = 40
TYPES = [np.dtype(name) for name in ("f4", "f8", "f2", "i8", "i4", "i2", "u1", "?")]
NUMBERS = TYPES[:-1]
FLOATS = TYPES[:3]
ENDS = [2**63 - 1, -(2**63), 0, 1, -1, 2, -2, 5, -5, 100, -100]
COMPARED = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


class Draw:
    """Random inputs and attributes of a node."""

    def __init__(self, seed):
        self.rng = rng(seed)

    def flip(self, share=0.5):
        return bool(self.rng.random() < share)

    def below(self, end, start=0):
        return int(self.rng.integers(start, end))

    def one(self, values):
        return values[self.below(len(values))]

    def shape(self, least=0, empty=0.1):
        return [0 if self.flip(empty) else self.below(5, 1) for _ in range(self.below(4, least))]

    def array(self, shape, dtype=None):
        values = self.rng.standard_normal(shape) * 3
        return np.asarray(np.round(values) if self.flip(0.7) else values).astype(dtype or self.one(TYPES))

    def axis(self, shape):
        return self.below(len(shape), -len(shape))

    def places(self, size, shape):
        return np.asarray(self.rng.integers(-size, size, shape))

    # --- inputs and attributes of ops ---

    def pair(self, dtype):
        shape = self.shape()
        second = [1 if self.flip(0.3) else size for size in shape][self.below(len(shape) + 1) :]
        return [self.array(shape, dtype), self.array(second, dtype)], {}

    def whole(self):
        return [self.array(self.shape())], {}

    def cast(self):
        return [self.array(self.shape())], {"to": self.one([1, 2, 3, 6, 7, 9, 10, 11])}

    def compress(self):
        shape = self.shape(1)
        axis = self.one([None, self.axis(shape)])
        size = np.prod(shape, dtype=int) if axis is None else shape[axis]
        mask = self.rng.random(self.below(size + 1)) < 0.5
        return [self.array(shape), mask], {} if axis is None else {"axis": axis}

    def concat(self):
        shape, dtype = self.shape(1), self.one(TYPES)
        axis = self.axis(shape)
        parts = []
        for _ in range(self.below(4, 1)):
            shape[axis] = self.below(4)
            parts.append(self.array(shape, dtype))
        return parts, {"axis": axis}

    def filled(self):
        value = {} if self.flip(0.3) else {"value": numpy_helper.from_array(self.array([1]))}
        return [ints(*self.shape())], value

    def constant(self):
        many = [self.below(9) for _ in range(3)]
        given = {
            "value": numpy_helper.from_array(self.array(self.shape())),
            "value_float": 1.5,
            "value_floats": [0.5, *map(float, many)],
            "value_int": 7,
            "value_ints": many,
        }
        name = self.one(list(given))
        return [], {name: given[name]}

    def expand(self):
        shape = self.shape()
        first = [size if self.flip() else 1 for size in shape]
        return [self.array(first), ints(*[size if self.flip(0.7) else 1 for size in shape])], {}

    def gather(self):
        shape = self.shape(1, empty=0)
        axis = self.axis(shape)
        index = self.places(shape[axis], self.shape()).astype(self.one(["i4", "i8"]))
        return [self.array(shape), index], {"axis": axis}

    def gather_elements(self):
        shape = self.shape(1, empty=0)
        axis = self.below(len(shape))  # the reference takes no other
        index = list(shape)
        index[axis] = self.below(5)
        return [self.array(shape), self.places(shape[axis], index)], {"axis": axis}

    def places_in(self, shape):
        count = self.below(len(shape) + 1, 1)
        outer = self.shape(1)
        return np.stack([self.places(size, outer) for size in shape[:count]], -1)

    def gather_nd(self):
        shape = self.shape(1, empty=0)
        return [self.array(shape), self.places_in(shape)], {}

    def scatter_nd(self):
        shape, dtype = self.shape(1, empty=0), self.one(TYPES)
        index = self.places_in(shape)
        count = index.shape[-1]
        index = np.unique(index.reshape(-1, count) % shape[:count], axis=0)
        return [self.array(shape, dtype), index, self.array([len(index), *shape[count:]], dtype)], {}

    def range(self):
        numbers = self.below(10, -9), self.below(10, -9), self.one([-3, -1, 1, 2])
        return [np.asarray(v).astype(self.one(["i8"])) for v in numbers], {}

    def reshape(self):
        shape = self.shape()
        wanted = [-1] if np.prod(shape, dtype=int) and self.flip() else shape
        return [self.array(shape), ints(*wanted)], {"allowzero": 1}

    def slice(self):
        shape = self.shape(1)
        axes = self.rng.permutation(len(shape))[: self.below(len(shape) + 1, 1)]
        starts, ends = (ints(*[self.one(ENDS) for _ in axes]) for _ in range(2))
        given = [self.array(shape), starts, ends, axes - len(shape) * self.below(2)]
        return given + [ints(*[self.one([-2, -1, 1, 2, 3]) for _ in axes])] * self.below(2), {}

    def split(self):
        shape = self.shape(1)
        axis = self.axis(shape)
        first = self.below(shape[axis] + 1)
        return [self.array(shape), ints(first, shape[axis] - first)], {"axis": axis}

    def squeeze(self):
        shape = [1, *self.shape()]
        self.rng.shuffle(shape)
        axis = shape.index(1) - len(shape) * self.below(2)
        return [self.array(shape), ints(axis)][: self.below(3, 1)], {}

    def unsqueeze(self):
        shape = self.shape()
        return [self.array(shape), self.rng.permutation(len(shape) + 2)[:2]], {}

    def tile(self):
        shape = self.shape()
        return [self.array(shape), self.rng.integers(0, 3, len(shape))], {}

    def topk(self):
        shape = [self.below(4, 1), 50] if self.flip(0.3) else self.shape(1, empty=0)
        axis = self.axis(shape)
        x = self.array(shape, self.one(["f4", "f8", "i8", "i4"]))
        return [x, ints(self.below(shape[axis] + 1))], {"axis": axis, "largest": self.below(2)}

    def clip(self):
        x = self.array(self.shape(), self.one(NUMBERS))
        return [x, np.asarray(-2).astype(x.dtype), np.asarray(1).astype(x.dtype)][: self.below(4, 2)], {}

    def extreme(self):
        x = self.array(self.shape(1, empty=0), self.one(NUMBERS))
        axes = [ints(self.below(x.ndim))] * self.below(2)
        return [x, *axes], {"keepdims": self.below(2)}

    def flatten(self):
        shape = self.shape(1, empty=0)
        return [self.array(shape)], {"axis": self.below(len(shape) + 1)}

    def scatter_elements(self):
        shape, dtype = self.shape(1, empty=0), self.one(TYPES)
        axis = self.axis(shape)
        index = np.asarray(self.rng.permutation(shape[axis])[: self.below(shape[axis] + 1, 1)])
        index = index.reshape([-1 if a == axis % len(shape) else 1 for a in range(len(shape))])
        wide = [index.size if a == axis % len(shape) else size for a, size in enumerate(shape)]
        index = np.broadcast_to(index, wide)
        return [self.array(shape, dtype), index.copy() if self.flip() else index, self.array(wide, dtype)], {
            "axis": axis
        }

    def transpose(self):
        shape = self.shape(1)
        order = self.rng.permutation(len(shape)).tolist()
        return [self.array(shape)], {"perm": order} if self.flip(0.7) else {}

    def where(self):
        shape, dtype = self.shape(), self.one(TYPES)
        return [self.array(shape[1:], "?"), self.array(shape, dtype), self.array([], dtype)], {}


DRAWN = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), lambda d: d.pair(d.one(NUMBERS))),
    "Div": lambda d: d.pair(d.one(FLOATS)),
    **dict.fromkeys(("Ceil", "Floor", "Sqrt"), lambda d: ([d.array(d.shape(), d.one(FLOATS))], {})),
    **dict.fromkeys(("Abs", "Neg"), lambda d: ([d.array(d.shape(), d.one(NUMBERS[:6]))], {})),
    **dict.fromkeys(COMPARED, lambda d: d.pair(d.one(NUMBERS))),
    **dict.fromkeys(("And", "Or", "Xor"), lambda d: d.pair("?")),
    "Not": lambda d: ([d.array(d.shape(), "?")], {}),
    **dict.fromkeys(("Identity", "Shape", "Size"), Draw.whole),
    "Cast": Draw.cast,
    "Clip": Draw.clip,
    "Compress": Draw.compress,
    "Concat": Draw.concat,
    "Constant": Draw.constant,
    "ConstantOfShape": Draw.filled,
    "Expand": Draw.expand,
    "Flatten": Draw.flatten,
    "Gather": Draw.gather,
    "GatherElements": Draw.gather_elements,
    "GatherND": Draw.gather_nd,
    "NonZero": lambda d: ([d.array([2, *d.shape()])], {}),
    "Range": Draw.range,
    "Reshape": Draw.reshape,
    **dict.fromkeys(("ReduceMax", "ReduceMin"), Draw.extreme),
    "ScatterElements": Draw.scatter_elements,
    "ScatterND": Draw.scatter_nd,
    "Slice": Draw.slice,
    "Split": Draw.split,
    "Squeeze": Draw.squeeze,
    "Tile": Draw.tile,
    "TopK": Draw.topk,
    "Transpose": Draw.transpose,
    "Unsqueeze": Draw.unsqueeze,
    "Where": Draw.where,
}
NOT_TAKEN = {"Cast": 0.5, "Slice": 0.5}
"""Shares of the draws that others have: floats to integers; a first place before the first element, backwards."""


def called(kind, arrays, count, attributes):
    given = {
        name: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v
        for name, v in attributes.items()
    }
    return Call(kind, OPSET, arrays, count, count, given, 1 << 30)


@pytest.mark.parametrize("kind", sorted(PLAIN))
def test_results_are_those_of_the_reference(kind):
    taken = 0
    for seed in range(TRIALS):
        arrays, attributes = DRAWN[kind](Draw(seed))
        count = 2 if kind in ("TopK", "Split") else 1
        names, results = [f"i{n}" for n in range(len(arrays))], [f"o{n}" for n in range(count)]
        node = helper.make_node(kind, names, results, **attributes)
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in zip(names, arrays, strict=True)
        ]
        graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in results])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        with np.errstate(all="ignore"):
            wanted = reference.ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))
        made = plainly(called(kind, arrays, count, attributes))
        if made is None:
            continue
        taken += 1
        for one, other in zip(made, wanted, strict=True):
            assert one.dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(one, other, strict=True, err_msg=f"seed {seed}")
    assert taken >= TRIALS * (1 - NOT_TAKEN.get(kind, 0))


def test_what_breaks_a_rule_is_left_to_others():
    x = np.zeros((2, 3), np.float32)
    for kind, arrays, attributes in (
        ("Gather", [x, ints(2)], {}),
        ("Reshape", [x, ints(4)], {}),
        ("Slice", [x, ints(0), ints(1), ints(5)], {}),
        ("Range", [np.asarray(1), np.asarray(2), np.asarray(0)], {}),
        ("Transpose", [x], {"perm": [0, 2]}),
        ("TopK", [x, ints(4)], {}),
        ("Add", [x, x.astype("f8")], {}),
        ("Where", [x > 0, x, x.astype("f8")], {}),
    ):
        assert plainly(called(kind, arrays, 1, attributes)) is None, kind


def greedy(boxes, scores, most, overlap, least):
    """Boxes that are kept, one after the other."""
    kept = []
    areas = np.prod(boxes[..., 2:] - boxes[..., :2], -1, dtype="f4")
    for batch, kind in np.ndindex(*scores.shape[:2]):
        row, corners, area = scores[batch, kind], boxes[batch], areas[batch]
        own = []
        for place in np.argsort(-row, kind="stable"):
            if not row[place] > np.float32(least) or len(own) == most:
                continue
            low = np.maximum(corners[place, :2], corners[own, :2])
            high = np.minimum(corners[place, 2:], corners[own, 2:])
            shared = np.prod(np.maximum(high - low, 0), -1, dtype="f4")
            if not np.any(shared > np.float32(overlap) * (area[place] + area[own] - shared)):
                own.append(int(place))
        kept += [(batch, kind, place) for place in own]
    return np.asarray(kept, np.int64).reshape(-1, 3)


@pytest.mark.parametrize("most", [1, 7, 1 << 40])
@pytest.mark.parametrize(("kinds", "count"), [(1, 500), (3, 150), (40, 20)])
def test_boxes_are_kept_as_one_after_the_other(kinds, count, most):
    """In blocks that are part of a class, and of many."""
    random = rng(kinds)
    corner = random.random((2, count, 2))
    boxes = np.concatenate((corner, corner + 0.2 * random.random((2, count, 2))), -1).astype("f4")
    scores = np.round(random.standard_normal((2, kinds, count)), 1).astype("f4")
    made = suppressed(boxes, scores, most, 0.3, -0.5, centers=False)
    np.testing.assert_array_equal(made, greedy(boxes, scores, most, 0.3, -0.5))


def sampled(image, y, x):
    """A bilinear sample of (C, H, W), whose border goes on for one element."""
    rows, columns = image.shape[1:]
    if not (-1 <= y <= rows and -1 <= x <= columns):
        return np.zeros(len(image))
    y, x = np.clip(y, 0, rows - 1), np.clip(x, 0, columns - 1)
    low, left = int(y), int(x)
    high, right = min(low + 1, rows - 1), min(left + 1, columns - 1)
    above = (1 - (x - left)) * image[:, low, left] + (x - left) * image[:, low, right]
    below = (1 - (x - left)) * image[:, high, left] + (x - left) * image[:, high, right]
    return (1 - (y - low)) * above + (y - low) * below


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions_are_averages_of_samples(opset, samples):
    random = rng(opset + samples)
    images = random.standard_normal((2, 3, 6, 9)).astype("f4")
    corner = random.random((5, 2)) * 20 - 4
    sides = np.array([[9, 9], [31, 3], [0.2, 0.3], [5, 13], [0, 0]])
    regions = np.concatenate((corner, corner + sides), 1).astype("f4")
    batches = ints(0, 1, 1, 0, 1)
    given = {"output_height": 2, "output_width": 3, "sampling_ratio": samples, "spatial_scale": 0.5}
    (made,) = region_averages(Call("RoiAlign", opset, [images, regions, batches], 1, 1, given, 1 << 30))
    offset, least = (0.5, 0) if opset > 15 else (0, 1)
    for number, (left, top, right, bottom) in enumerate(regions.astype("f8") * 0.5 - offset):
        height, width = max(bottom - top, least) / 2, max(right - left, least) / 3
        down, over = (samples or int(np.ceil(side)) for side in (height, width))
        for row, column in np.ndindex(2, 3):
            wanted = np.zeros(3)
            for a, b in np.ndindex(down, over):
                y = top + (row + (a + 0.5) / down) * height
                x = left + (column + (b + 0.5) / over) * width
                wanted += sampled(images[batches[number]].astype("f8"), y, x) / (down * over)
            np.testing.assert_allclose(made[number, :, row, column], wanted, atol=1e-5)
