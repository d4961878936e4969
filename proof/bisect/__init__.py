"""The first tensor of a graph that a runtime computes wrongly, and the smallest part that shows it."""
