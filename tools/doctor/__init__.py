"""`onednn-graph doctor`: runs a torch module or an ONNX model, and says what is slow or wrong in it, where and why.

A module for each question: what is examined (`subjects.py`), how torch runs it (`torch_side.py`, `torch_calls.py`), how
onnxruntime does (`onnx_side.py`), how ours does (`ours_side.py`), which layers of both belong together (`layers.py`),
which of the library's kernels are barred (`verbose.py`, `told.py`, `kernels.py`), which settings hurt (`threads.py`).
Models run in processes of their own (`worker.py`, `child.py`). `checks.py` lists a function for each thing that is
looked for, in `wrong.py` and `slow.py`; `examination.py` does it all, and `report.py` says it.
"""
