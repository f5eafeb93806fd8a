"""From a template, which makes a graph for each set of sizes, to one graph with unknown sizes, where there is one."""
