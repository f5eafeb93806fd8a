"""How ops become primitives: one module per family, and what is fused."""
