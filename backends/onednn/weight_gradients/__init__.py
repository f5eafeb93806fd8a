"""Weight gradients of convolutions: strategies, their cost, and the choice."""
