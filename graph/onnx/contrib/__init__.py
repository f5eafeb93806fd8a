"""Ops of onnxruntime's own domain `com.microsoft`, which its optimisations and quantisations leave in files, as ONNX's.

Source: `docs/ContribOperators.md` of onnxruntime. Types, ranks and constants of a node's inputs are known when it
becomes nodes of ONNX's own op set, of whichever version: translations know them all. What is more than is known here
is refused by name.
"""
