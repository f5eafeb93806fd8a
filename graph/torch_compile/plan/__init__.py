"""From an ATen graph and sizes to a program."""
