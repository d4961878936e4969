"""Gradients, losses, update rules, and a training step as one graph."""
