"""Whether a network is still good enough on data: metrics, and what they say of a runtime and a precision."""
