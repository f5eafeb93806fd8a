"""Random graphs, run in child processes and held against double precision; `tests/tools/fuzz_graphs.py` is its door."""
