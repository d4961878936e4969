"""The part of an image that each place of a strided window meets."""

import math

import numpy as np


class Parts:
    """An image split by the strides of a window: what a place meets is then one piece of one part, copied row by row;
    a slice with steps is copied number by number."""

    def __init__(self, op, image, first, sizes, strides):
        """Splits a padded image whose last axes, from axis `first`, are spatial and of lengths `sizes`."""
        self.op, self.axes, self.strides = op, list(range(first, first + len(sizes))), list(strides)
        phases = list(np.ndindex(*strides))
        self.sizes = {
            phase: [math.ceil((size - low) / s) for size, low, s in zip(sizes, phase, strides, strict=True)]
            for phase in phases
        }
        single = len(phases) == 1
        self.parts = {
            phase: image if single else op.Slice(image, list(phase), list(sizes), self.axes, self.strides)
            for phase in phases
        }

    def met(self, starts, counts):
        """What the place that begins at `starts` meets in this number of steps per axis."""
        phase = tuple(start % s for start, s in zip(starts, self.strides, strict=True))
        lows = [start // s for start, s in zip(starts, self.strides, strict=True)]
        highs = [low + count for low, count in zip(lows, counts, strict=True)]
        if not any(lows) and highs == self.sizes[phase]:
            return self.parts[phase]
        return self.op.Slice(self.parts[phase], lows, highs, self.axes)
