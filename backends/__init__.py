"""Who does the work: oneDNN primitives, and NumPy for everything."""
