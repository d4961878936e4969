"""The jobs of a worker: each file has functions, and `JOBS` names those that can be called."""
