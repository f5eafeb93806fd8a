"""Graphs as texts, tables, Graphviz and web pages."""
