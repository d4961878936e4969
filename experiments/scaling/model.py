"""The performance model of synchronous SGD by several workers: Shi, Wang and Chu, arXiv 1711.05979v3. Pure functions.

An iteration of one worker is t_iter = t_io + t_h2d + t_f + t_b + t_u; with several, t_comm is added, which is
the exchange of the gradients. If a loader reads ahead it is max(t_gpu + t_comm, t_io), t_gpu being the sum of all
but t_io. A layer's gradients can be sent while the layers before it are still computing: then only the part that is
not hidden is seen.

The paper's own example is CNTK's AlexNet, batch 1024 a GPU, on P40s (its table V, in seconds): t_io 0.2233, t_h2d
0.0528, t_f 0.1684, t_b 0.2919, t_u 0.0086; t_comm 0.0359 of 2 GPUs and 0.0420 of 4, not hidden. It predicts speed-ups
of 1.478 and 2.32, and measured 1.40 and 2.34. Its table does not say how t_io grows with the GPUs. Each of two
assumptions comes within half a per cent of one of the predictions, and none that we know of gives both: with all of
t_io once per GPU the speed-ups are 1.484 and 2.045; with the 588 MB of a batch read for one GPU after the
other at 3.5 GB/s, and decoded for all at once, they are 1.570 and 2.308 (tests/experiments/test_scaling_model.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Phases:
    """The seconds of one worker's iteration: reading a batch, copying it to the device, forward, backward, update."""

    io: float
    h2d: float
    forward: float
    backward: float
    update: float

    @property
    def gpu(self) -> float:
        """All but reading a batch: t_gpu, whatever the device is."""
        return self.h2d + self.forward + self.backward + self.update

    @property
    def iteration(self) -> float:
        return self.io + self.gpu

    def slowed(self, factor: float) -> "Phases":
        """Each `factor` times as long, as if that many workers share the resources of one."""
        return Phases(*(factor * each for each in (self.io, self.h2d, self.forward, self.backward, self.update)))


class Line(NamedTuple):
    """An all-reduce of N bytes takes latency + N x per_byte seconds."""

    latency: float
    per_byte: float

    def seconds(self, size: float) -> float:
        return self.latency + size * self.per_byte


class Visible(NamedTuple):
    """The visible communication in an iteration, and the case of the paper: 1 if every layer's communication is hidden
    by the work on the layers before it, so that only the first layer's is seen; else 2."""

    seconds: float
    case: int


class Prediction(NamedTuple):
    """The model's prediction for N workers."""

    iteration: float
    comm: float
    visible: float
    case: int


def iteration(phases: Phases, comm: float = 0.0) -> float:
    """Return t_iter without any overlap."""
    return phases.iteration + comm


def read_ahead(phases: Phases, comm: float = 0.0) -> float:
    """Return t_iter if batches are read while the device computes: the slower of both."""
    return max(phases.gpu + comm, phases.io)


def visible(comm: Sequence[float], backward: Sequence[float]) -> Visible:
    """Return the visible communication of layers, the first layer first.

    Layer i's begins when its gradients are there and that of layer i + 1 is over. In case 1, t_comm(i) <= t_b(i - 1)
    for all i, that leaves t_comm(1). In case 2, in which none fits from a layer C on, it leaves the sum of t_comm
    from C to 1 less that of t_b from C - 1 to 1.
    """
    if len(comm) != len(backward):
        raise ValueError(f"{len(comm)} times of communication, {len(backward)} of backward passes")
    fits = all(each <= before for each, before in zip(comm[1:], backward))
    worked = sent = 0.0
    for own, message in zip(reversed(backward), reversed(comm)):
        worked += own
        sent = max(worked, sent) + message
    return Visible(max(sent - worked, 0.0), 1 if fits else 2)


def speed_up(workers: int, io_one: float, io_many: float, gpu: float, comm: float) -> float:
    """Return S = Ng (t_io,1 + t_gpu) / (t_io,Ng + t_gpu + t_comm): of weak scaling, in samples a second."""
    return workers * (io_one + gpu) / (io_many + gpu + comm)


def fitted(points: Sequence[tuple[float, float]]) -> Line:
    """Return the least-squares line of (bytes, seconds) by relative errors, neither number below 0.

    Raises:
        ValueError: fewer than two sizes, or a time of 0.
    """
    if len({size for size, _ in points}) < 2 or min(seconds for _, seconds in points) <= 0:
        raise ValueError("a line needs two sizes, and times above 0")
    weights = [seconds**-2 for _, seconds in points]
    total = sum(weights)
    x = sum(w * size for w, (size, _) in zip(weights, points)) / total
    y = sum(w * seconds for w, (_, seconds) in zip(weights, points)) / total
    spread = sum(w * (size - x) ** 2 for w, (size, _) in zip(weights, points))
    slope = max(sum(w * (size - x) * (seconds - y) for w, (size, seconds) in zip(weights, points)) / spread, 0.0)
    if y - slope * x < 0:  # the best line through the origin
        squares = sum(w * size**2 for w, (size, _) in zip(weights, points))
        return Line(0.0, sum(w * size * seconds for w, (size, seconds) in zip(weights, points)) / squares)
    return Line(y - slope * x, slope)


def shares(messages: Sequence[int], layers: Sequence[tuple[int, int]], early: bool = True) -> list[float]:
    """Return the share of the backward pass between each message and the one before, the first first.

    `layers` are (bytes of gradients, multiply-accumulates) in the order of the network; messages take layers from the
    last on, and one that ends inside a layer waits for it. If none can be sent `early` all wait for the complete pass.
    """
    if not early:
        return [1.0] + [0.0] * (len(messages) - 1)
    work = sum(macs for _, macs in layers) or 1
    left, done, filled, ready = list(reversed(layers)), 0, 0, []
    for end in [sum(messages[: number + 1]) for number in range(len(messages) - 1)]:
        while left and filled < end:
            size, macs = left.pop(0)
            filled, done = filled + size, done + macs
        ready.append(done / work)
    ready.append(1.0)
    return [now - before for now, before in zip(ready, [0.0, *ready])]


def predicted(one: Phases, line: Line, messages: Sequence[int], parts: Sequence[float], slower: float) -> Prediction:
    """Return the iteration of workers that each do the work of one, `slower` by sharing, and exchange messages;
    `parts` are shares of the backward pass before each."""
    each = one.slowed(slower)
    comm = [line.seconds(size) for size in messages]
    seen = visible(comm[::-1], [each.backward * part for part in reversed(parts)])
    return Prediction(iteration(each, seen.seconds), sum(comm), *seen)
