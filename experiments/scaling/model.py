"""The performance model of synchronous SGD by several workers: Shi, Wang and Chu, arXiv 1711.05979v3. Pure functions.

An iteration of one worker is t_iter = t_io + t_h2d + t_f + t_b + t_u; with several there is t_comm besides, which is
the exchange of the gradients. Where a loader reads ahead it is max(t_gpu + t_comm, t_io), t_gpu being the sum of all
but t_io. A layer's gradients can travel while the layers before it are still at work: then only what does not fit
behind them is seen.

The paper's own example is CNTK's AlexNet, batch 1024 a GPU, on P40s (its table V, in seconds): t_io 0.2233, t_h2d
0.0528, t_f 0.1684, t_b 0.2919, t_u 0.0086; t_comm 0.0359 of 2 GPUs and 0.0420 of 4, not hidden. It predicts speed-ups
of 1.478 and 2.32, and measured 1.40 and 2.34. How t_io grows with the GPUs its table does not say. Each of two
assumptions comes within half a per cent of one of the predictions, and none that we know of gives both: with all of
t_io as often as there are GPUs the speed-ups are 1.484 and 2.045; with the 588 MB of a batch read for one GPU after the
other at 3.5 GB/s, and decoded for all at once, they are 1.570 and 2.308 (tests/experiments/test_scaling_model.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Phases:
    """The seconds of one worker's iteration: taking a batch, copying it to the device, forward, backward, update."""

    io: float
    h2d: float
    forward: float
    backward: float
    update: float

    @property
    def gpu(self) -> float:
        """All but the taking of a batch: t_gpu, whatever the device is."""
        return self.h2d + self.forward + self.backward + self.update

    @property
    def iteration(self) -> float:
        return self.io + self.gpu

    def slowed(self, factor: float) -> "Phases":
        """Each so many times as long, as where that many workers share what one had alone."""
        return Phases(*(factor * each for each in (self.io, self.h2d, self.forward, self.backward, self.update)))


class Line(NamedTuple):
    """An all-reduce of so many bytes takes latency + bytes x per_byte seconds."""

    latency: float
    per_byte: float

    def seconds(self, size: float) -> float:
        return self.latency + size * self.per_byte


class Visible(NamedTuple):
    """What of the communication an iteration is longer by, and which case of the paper it is: 1, where every layer's
    fits behind the work on the layers before it, so that only the first layer's is seen; else 2."""

    seconds: float
    case: int


class Prediction(NamedTuple):
    """What the model says of so many workers."""

    iteration: float
    comm: float
    visible: float
    case: int


def iteration(phases: Phases, comm: float = 0.0) -> float:
    """Return t_iter with nothing at the same time as anything else."""
    return phases.iteration + comm


def read_ahead(phases: Phases, comm: float = 0.0) -> float:
    """Return t_iter where batches are taken while the device works: the slower of both."""
    return max(phases.gpu + comm, phases.io)


def visible(comm: Sequence[float], backward: Sequence[float]) -> Visible:
    """Return what is seen of the communication of layers, the first layer first.

    Layer i's begins when its gradients are there and that of layer i + 1 is over. In case 1, t_comm(i) <= t_b(i - 1)
    for all i, that leaves t_comm(1). In case 2, where from a layer C on none fits any more, it leaves the sum of t_comm
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
    """Return the line of (bytes, seconds) with the least squares of relative errors, neither number below 0.

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
    """Return the share of the backward pass that is done between each message and the one before, the first first.

    `layers` are (bytes of gradients, multiply-accumulates) in the order of the network; messages take layers from the
    last on, and one that ends inside a layer waits for it. Where none can be sent `early` all wait for the whole pass.
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
    """Return the iteration of workers that each do what one did, `slower` by what they share, and exchange messages; by
    `parts` the backward pass ends before each."""
    each = one.slowed(slower)
    comm = [line.seconds(size) for size in messages]
    seen = visible(comm[::-1], [each.backward * part for part in reversed(parts)])
    return Prediction(iteration(each, seen.seconds), sum(comm), *seen)
