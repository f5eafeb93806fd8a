"""ATen ops that only autograd makes."""
