"""Transformations and analyses of a graph."""
