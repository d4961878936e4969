"""What a worker can be asked to do: each file has functions, and `JOBS` names those that are asked for."""
