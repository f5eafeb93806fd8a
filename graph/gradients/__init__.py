"""Gradients of graphs: one rule for each kind of op, and the sweep that joins them."""
