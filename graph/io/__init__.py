"""Graphs as oneDNN Graph's JSON files."""
