"""What a graph is: its content, the builder over it, and what rewriters do to it."""
