"""Experiments: what is proved, measured and stored, in the parent process and in its workers."""
