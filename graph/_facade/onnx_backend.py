"""`onnx.backend.base.Backend`: what ONNX's own test runner, and other tools of ONNX, run models by.

    import onednn_graph.onnx_backend as backend

    outputs = backend.run_model(model, [x])

It needs the package onnx, which the extra `onnx` installs.
"""

from onednn_graph.graph.onnx.backend import (
    Backend,
    BackendRep,
    is_compatible,
    prepare,
    run_model,
    run_node,
    supports_device,
)

__all__ = ["Backend", "BackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]
