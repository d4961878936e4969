"""What runs inside an old framework's own environment: Python 3.6, NumPy and the framework, nothing else of ours.

`host.py` is the process. Every other file is a framework: a table of operators in which the printed text runs, and a
`Model` on it: prepare, put, forward, get, weights, and gradients, step, memory, reset where it trains.
"""
