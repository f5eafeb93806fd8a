"""`python -m onednn_graph` is the command `onednn-graph`."""

from onednn_graph.tools import main

main()
