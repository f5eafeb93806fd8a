"""From graphs to ONNX: for each kind of op what nodes of ONNX say the same.

`exporter` goes through a graph, `table` has who writes which kind, `writing` what is written. The package onnx is
imported when it is needed; it is an extra.
"""
