"""Resamplings whose data is more than caches hold, which oneDNN writes past them."""

import processes
import pytest

LARGE = """
import json
import numpy as np
import onednn_graph as og

def placed(shape, beside):
    count = int(np.prod(shape)) * 4
    room = np.zeros(count + 128, np.uint8)
    first = -room.ctypes.data % 64 + beside
    return room[first : first + count].view(np.float32).reshape(shape)

shape, result = (1, 1, 1100, 1100), (1, 1, 2200, 2200)
if FORMAT == "NXC":
    shape, result = (1, 550, 550, 16), (1, 1100, 1100, 16)
graph = og.Graph()
x = graph.input("x", "f32", list(shape))
ways = {"coordinate_transformation_mode": "half_pixel", "data_format": FORMAT}
graph.output(graph.op("Interpolate", x, mode=MODE, scales=[2.0, 2.0], **ways), name="y")
model = graph.compile()
data = np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32)
right = graph.compile(backend="numpy")(data)["y"]
assert (model(data)["y"] == right).all()
for beside in (0, 4, 16, 32):
    out = placed(result, beside)
    model(data, outputs={"y": out})
    assert (out == right).all(), beside
model.bind({"x": data})()
try:
    model.bind({"x": data}, outputs={"y": placed(result, 16)})
except og.ArgumentError as error:
    assert "multiple of 64" in str(error)
else:
    raise SystemExit("bound to memory that may end the process")
print(json.dumps("right"))
"""


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_results_may_begin_anywhere(mode, data_format, monkeypatch):
    """NumPy's large arrays begin 16 bytes behind a page, where stores past the caches ended the process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which counts the cache of one core
    assert processes.printed(f"MODE, FORMAT = {mode!r}, {data_format!r}\n{LARGE}") == "right"
