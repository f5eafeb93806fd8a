"""Plans of primitives: steps, buffers, and the memory that they share."""
