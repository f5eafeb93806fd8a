"""Random torch modules: drawn, judged and shrunk."""
