"""Fourier transforms, windows of their frames, and the mel scale."""

import numpy as np

from xbench.converters.ops.generic.types import type_numbered


def _integer(value):
    return int(np.asarray(value).reshape(()))


def _parts(xp, x):
    """Real and imaginary part of an array whose last axis has one or both of them."""
    size = xp.shape(x)[-1]
    return tuple(xp.take(x, np.asarray(i), -1) for i in range(size)) if size == 2 else (xp.squeeze(x, -1), None)


def DFT(xp, x, dft_length=None, axis=None, *, inverse=0, onesided=0):
    """The discrete Fourier transform along an axis of x (..., 1 or 2), whose last axis is real and imaginary part.

    One-sided, a transform returns the length // 2 + 1 values that the others are conjugates of, and its inverse takes
    them and returns a real signal.
    """
    rank = len(xp.shape(x))
    axis = (-2 if axis is None else _integer(axis)) % rank
    real, imag = _parts(xp, x)
    half = onesided and inverse
    length = 2 * (xp.shape(x)[axis] - 1) if half else xp.shape(x)[axis]
    length = length if dft_length is None else _integer(dft_length)
    if half:
        real, imag = _mirrored(xp, real, axis, length, 1), _mirrored(xp, imag, axis, length, -1)
    real, imag = xp.fft(real, imag, axis, length, bool(inverse))
    if half:
        return xp.expand_dims(real, (rank - 1,))
    y = xp.stack((real, imag), rank - 1)
    return _first(xp, y, axis, length // 2 + 1) if onesided else y


def _first(xp, x, axis, length):
    return xp.getitem(x, tuple(slice(0, length if a == axis else None) for a in range(len(xp.shape(x)))))


def _mirrored(xp, x, axis, length, sign):
    """The spectrum of a real signal, from its first half."""
    x = _first(xp, x, axis, length // 2 + 1)
    mirror = [length - k for k in range(xp.shape(x)[axis], length)]
    return xp.concatenate((x, sign * xp.take(x, np.asarray(mirror, np.int64), axis)), axis)


def STFT(xp, signal, frame_step, window=None, frame_length=None, *, onesided=1):
    """Fourier transforms of frames that slide over a signal (batch, time, 1 or 2): (batch, frames, frequencies, 2)."""
    step, time = _integer(frame_step), xp.shape(signal)[1]
    length = time if window is None else xp.shape(window)[0]
    length = length if frame_length is None else _integer(frame_length)
    index = np.arange((time - length) // step + 1).reshape(-1, 1) * step + np.arange(length)
    frames = xp.take(signal, index, 1)
    if window is not None:
        frames = frames * xp.reshape(xp.asarray(window, signal), (length, 1))
    y = DFT(xp, frames, axis=2)
    return _first(xp, y, 2, length // 2 + 1) if onesided else y


# ***** windows *****


def _cosines(weights, size, periodic, output_datatype):
    """A sum of cosines, of alternating sign, over one period."""
    size = _integer(size)
    angle = 2 * np.pi * np.arange(size) / max(size if periodic else size - 1, 1)
    y = sum((-1) ** k * weight * np.cos(k * angle) for k, weight in enumerate(weights))
    return np.asarray(y, type_numbered(output_datatype))


def BlackmanWindow(xp, size, *, output_datatype=1, periodic=1):
    return _cosines((0.42, 0.5, 0.08), size, periodic, output_datatype)


def HammingWindow(xp, size, *, output_datatype=1, periodic=1):
    return _cosines((25 / 46, 21 / 46), size, periodic, output_datatype)


def HannWindow(xp, size, *, output_datatype=1, periodic=1):
    return _cosines((0.5, 0.5), size, periodic, output_datatype)


def MelWeightMatrix(
    xp, num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, *, output_datatype=1
):
    """Triangles of height one over the frequencies of a one-sided DFT: (dft_length // 2 + 1, num_mel_bins)."""
    bins, length = _integer(num_mel_bins), _integer(dft_length)
    low, high = (2595 * np.log10(1 + float(np.asarray(f)) / 700) for f in (lower_edge_hertz, upper_edge_hertz))
    hertz = 700 * (10 ** ((low + np.arange(bins + 2) * (high - low) / (bins + 2)) / 2595) - 1)
    corners = ((length + 1) * hertz // _integer(sample_rate)).astype(np.int64)
    left, peak, right = corners[:-2], corners[1:-1], corners[2:]
    at = np.arange(length // 2 + 1).reshape(-1, 1)
    rising, falling = (at - left) / np.maximum(peak - left, 1), (right - at) / np.maximum(right - peak, 1)
    y = np.where(at < peak, rising, np.where(at == peak, 1, falling))
    return np.maximum(y, 0).astype(type_numbered(output_datatype))
