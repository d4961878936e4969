"""Checks that it is the same network: the oracle (`oracle.py`), the metrics and the verdict (`verdict.py`), and the
search for the wrong part (`search.py`). A runtime is compared with the network in float64; the error of float32 PyTorch
is the unit."""
