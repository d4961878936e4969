"""A training step by several workers: proved, timed beside one worker, and set against a model."""
