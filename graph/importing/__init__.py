"""What importers share: a graph under construction, expressions on it, larger layers, and the recognition of both."""
