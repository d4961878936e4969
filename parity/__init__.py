"""Is it the same network? The oracle (`oracle.py`), the metrics and the verdict (`verdict.py`), the first wrong tensor
(`locate.py`). A runtime is compared with the network in float64; what float32 PyTorch itself loses is the measure."""
