"""Is it the same network? The oracle (`oracle.py`), the metrics and the verdict (`verdict.py`), and where it is not the
search for the part that is wrong (`search.py`). A runtime is compared with the network in float64; what float32 PyTorch
itself loses is the measure."""
