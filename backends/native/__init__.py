"""Native oneDNN Graph as a backend: the library's own partitioner, compiler and executor, behind the same graph."""
