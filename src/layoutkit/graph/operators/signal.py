"""Audio: windows, Fourier transforms, filters of mel spectra."""

from __future__ import annotations

import numpy as np

from .base import normal, operator, required
from .scatter import scalar


def _window_shape(node, inputs):
    return [(node.attributes.get("output_datatype", np.dtype(np.float32)), [int(scalar(node, inputs, 0))])]


WINDOWS = {  # coefficients of cosines of multiples of the angle
    "HannWindow": (0.5, -0.5), "HammingWindow": (25 / 46, -21 / 46), "BlackmanWindow": (0.42, -0.5, 0.08),
}  # fmt: skip


@operator(*WINDOWS, shape=_window_shape)
def _window(inputs, attributes):
    n = int(np.asarray(inputs[0]).item())
    span = n if attributes.get("periodic", 1) else n - 1
    angle = 2 * np.pi * np.arange(n) / max(span, 1)
    y = sum(c * np.cos(i * angle) for i, c in enumerate(WINDOWS[attributes["op"]]))
    return [np.asarray(y).astype(attributes.get("output_datatype", np.float32))]


def _mel_shape(node, inputs):
    bins, length = (int(scalar(node, inputs, i)) for i in (0, 1))
    return [(node.attributes.get("output_datatype", np.dtype(np.float32)), (length // 2 + 1, bins))]


@operator("MelWeightMatrix", shape=_mel_shape)
def _mel(inputs, attributes):
    """Triangles over the bins of a spectrum, whose corners are equally far apart in mel."""
    bins, length, rate, low, high = (np.asarray(x).item() for x in inputs)
    edges = 2595 * np.log10(1 + np.array([low, high]) / 700)
    corners = edges[0] + np.arange(bins + 2) * ((edges[1] - edges[0]) / (bins + 2))
    corners = np.floor((length + 1) * (700 * (10 ** (corners / 2595) - 1)) / rate)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    at = np.arange(length // 2 + 1)[:, None]
    with np.errstate(all="ignore"):
        up, down = (at - left) / (middle - left), (right - at) / (right - middle)
    y = np.where((at >= left) & (at <= middle) & (middle > left), up, 0)
    y = np.where((middle == left) & (at == middle), 1, y)
    y = np.where((at >= middle) & (at < right), down, y)
    return [y.astype(attributes.get("output_datatype", np.float32))]


def _dft_sizes(x, length, axis, inverse, onesided):
    """The length of a transform along an axis, and the number of its results."""
    rank = len(x.shape)
    axis = normal(int(axis), rank, "DFT")
    if rank < 2 or axis == rank - 1 or x.shape[-1] not in (1, 2):
        raise ValueError(f"axis {axis} of a tensor of shape {x.shape}: the last one holds real and imaginary parts")
    if length is None:
        length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    length = int(length)
    if length < 1:
        raise ValueError(f"a transform of {length} numbers")
    return axis, length, length if inverse or not onesided else length // 2 + 1


def _dft_shape(node, inputs):
    x, a = required(inputs[0]), node.attributes
    length, axis = scalar(node, inputs, 1), scalar(node, inputs, 2)
    inverse, onesided = a.get("inverse", 0), a.get("onesided", 0)
    axis, _, count = _dft_sizes(x, length, a.get("axis", -2) if axis is None else axis, inverse, onesided)
    return [(x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 : -1], 1 if inverse and onesided else 2))]


def _complex(x):
    """Of the last axis, which holds real and imaginary parts."""
    wide = np.asarray(x, np.promote_types(x.dtype, np.float32))
    return wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]


def _parts(y):
    return np.stack([y.real, y.imag], -1)


@operator("DFT", shape=_dft_shape)
def _dft(inputs, attributes):
    x, length, axis = (*inputs, None, None)[:3]
    inverse, onesided = attributes.get("inverse", 0), attributes.get("onesided", 0)
    axis = attributes.get("axis", -2) if axis is None else np.asarray(axis).item()
    length = None if length is None else np.asarray(length).item()
    axis, length, count = _dft_sizes(x, length, axis, inverse, onesided)
    signal = _complex(x)
    if inverse and onesided:
        return [np.fft.irfft(signal, length, axis)[..., None].astype(x.dtype)]
    if onesided and signal.dtype.kind != "c":
        return [_parts(np.fft.rfft(signal, length, axis)).astype(x.dtype)]
    y = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis)
    return [_parts(np.take(y, np.arange(count), axis) if onesided else y).astype(x.dtype)]


def _frames(x, window, step, length):
    """The number of frames of a signal, and the length of each."""
    if len(x.shape) not in (2, 3) or (len(x.shape) == 3 and x.shape[2] not in (1, 2)):
        raise ValueError(f"a signal of shape {x.shape}")
    n = x.shape[1]
    if length is None:
        length = n if window is None else window.shape[0]
    length, step = int(length), int(step)
    if window is not None and (len(window.shape) != 1 or window.shape[0] != length):
        raise ValueError(f"a window of shape {window.shape} over frames of {length}")
    if not 1 <= length <= n or step < 1:
        raise ValueError(f"frames of {length}, {step} apart, of {n} samples")
    return (n - length) // step + 1, length


def _stft_shape(node, inputs):
    x, _, window = (*inputs, None)[:3]
    x, step, length = required(x), scalar(node, inputs, 1), scalar(node, inputs, 3)
    count, length = _frames(x, window, step, length)
    bins = length // 2 + 1 if node.attributes.get("onesided", 1) else length
    return [(x.dtype, (x.shape[0], count, bins, 2))]


@operator("STFT", shape=_stft_shape)
def _stft(inputs, attributes):
    x, step, window, length = (*inputs, None, None)[:4]
    step, length = int(np.asarray(step).item()), None if length is None else int(np.asarray(length).item())
    count, length = _frames(x, window, step, length)
    signal = x if x.ndim == 2 else _complex(x)
    frames = np.lib.stride_tricks.sliding_window_view(signal, length, 1)[:, ::step][:, :count]
    frames = frames if window is None else frames * window
    onesided = attributes.get("onesided", 1)
    if onesided and frames.dtype.kind != "c":
        return [_parts(np.fft.rfft(frames)).astype(x.dtype)]
    y = np.fft.fft(frames)
    return [_parts(y[..., : length // 2 + 1] if onesided else y).astype(x.dtype)]
