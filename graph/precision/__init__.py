"""Other number formats for whole graphs: bf16 in the place of f32, and 8-bit integers from observed ranges."""
