"""What a graph is: logical tensors, ops, who feeds whom, and the shapes that follow."""
