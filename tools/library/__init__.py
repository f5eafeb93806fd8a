"""`onednn-graph library`: which builds of oneDNN there are, which one runs, and how another takes its place."""
