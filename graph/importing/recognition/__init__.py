"""Functions that a model writes out of several ops, as the one op that the set has for them."""
