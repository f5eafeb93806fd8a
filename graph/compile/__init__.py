"""From a graph to what can be run: backends, the partitioner, partitions, compiled graphs."""
