"""Training: in one process, and in many that average their gradients."""
