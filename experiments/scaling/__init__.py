"""A training step by several workers: proved, timed against one, and compared with a model."""
