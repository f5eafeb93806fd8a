"""One function for each op: arrays in, array out."""
