"""The roofline of a step: its arithmetic, its least memory traffic, and the rate that a machine could attain.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52(4), 2009, doi 10.1145/1498765.1498785. That the backward pass counts as two forward passes
(one product for the gradient of a layer's input, one for that of its weights) is a convention: Kaplan et al., "Scaling
laws for neural language models", 2020, arXiv 2001.08361, section 2.1.
"""

FORWARDS = {"forward": 1, "gradient": 3, "step": 3}  # forward passes that a mode counts as
LOSS = 4  # bytes


def flop(macs: int | None, mode: str, batch: int) -> int | None:
    """Floating-point operations of a step: two per multiply-accumulate; None if these are unknown."""
    return None if macs is None else 2 * macs * batch * FORWARDS[mode]


def traffic(mode: str, parameters: int, looked_up: int, statistics: int, slots: int, given: int, outputs: int) -> int:
    """The least bytes that a step must read or write, with caches unlimited within it and empty before it.

    Args, in bytes: `parameters`; `looked_up`, those in tables of which a step reads only rows; `statistics`, running
    ones; `given`, inputs and labels; `outputs`. `slots` is the number of arrays that an update keeps per parameter.
    """
    read = parameters - looked_up
    if mode == "forward":
        return read + statistics + given + outputs
    if mode == "gradient":
        return read + given + parameters + LOSS
    updated = parameters if slots else read  # plain SGD can skip parameters without a gradient
    return 2 * updated + 2 * slots * parameters + 2 * statistics + given + LOSS


def attainable(intensity: float, peak: float, bandwidth: float) -> tuple[float, str]:
    """FLOP/s that `peak` FLOP/s and `bandwidth` bytes/s allow at `intensity` FLOP a byte, and which of them is the
    bound: `compute` or `memory`."""
    return (peak, "compute") if peak <= intensity * bandwidth else (intensity * bandwidth, "memory")
