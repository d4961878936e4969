"""Rows of the operators on images: convolution, pooling, resampling, regions of interest. Merged into `cases.CASES`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cases import IMAGE, Row, int_array, ints, positive, real, row, scalar

VOLUME = real(1, 2, 5, 6, 7)
LINE = real(2, 3, 11)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def pooled(**attributes: Any) -> list[Row]:
    def pool(x: np.ndarray, kernel: Sequence[int], **rest: Any) -> Row:
        return row(x, kernel_shape=kernel, **rest, **attributes)

    return [
        pool(IMAGE, [2, 3], strides=[2, 2]),
        pool(IMAGE, [3, 2]),
        pool(IMAGE, [3, 3], strides=[2, 2], pads=[1, 0, 1, 1]),
        pool(IMAGE, [3, 3], strides=[2, 3], ceil_mode=1),
        pool(IMAGE, [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, referee="onnxruntime"),
        pool(IMAGE, [2, 2], strides=[2, 2], auto_pad="SAME_UPPER", referee="onnxruntime"),
        pool(IMAGE, [2, 2], strides=[2, 2], auto_pad="SAME_LOWER", referee="onnxruntime"),
        pool(LINE, [3], strides=[2]),
        pool(VOLUME, [2, 2, 3]),
    ]


def dilated(**attributes: Any) -> list[Row]:
    return [
        row(IMAGE, kernel_shape=[2, 2], dilations=[2, 3], referee="onnxruntime", opset=22, **attributes),
        row(IMAGE, kernel_shape=[2, 3], dilations=[3, 2], strides=[2, 1], pads=[1, 0, 1, 2], opset=22, **attributes),
        row(LINE, kernel_shape=[3], dilations=[2], pads=[1, 1], referee="onnxruntime", opset=22, **attributes),
        row(
            VOLUME, kernel_shape=[2, 2, 2], dilations=[1, 2, 3], ceil_mode=1, strides=[2, 1, 1], opset=22, **attributes
        ),
    ]


def max_pooled() -> list[Row]:
    def two(x: np.ndarray, kernel: Sequence[int], **rest: Any) -> Row:
        return row(x, kernel_shape=kernel, outputs=2, referee="onnxruntime", **rest)

    return [
        *pooled(),
        *dilated(),
        row((IMAGE * 40).astype(np.int8), kernel_shape=[3, 2], pads=[1, 1, 1, 0], referee="onnxruntime"),
        row((IMAGE * 40 + 128).astype(np.uint8), kernel_shape=[2, 2], auto_pad="SAME_LOWER", referee="onnxruntime"),
        two(IMAGE, [2, 3], strides=[2, 2]),
        two(IMAGE, [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        two(IMAGE, [2, 2], dilations=[2, 3], storage_order=1),
        two(LINE, [3], strides=[2], pads=[0, 1]),
        two(VOLUME, [2, 2, 3]),
    ]


def norm_pooled() -> list[Row]:
    return [
        row(IMAGE, kernel_shape=[2, 3], strides=[2, 1], opset=22),
        row(IMAGE, kernel_shape=[2, 3], strides=[2, 1], p=1, opset=22),
        row(IMAGE, kernel_shape=[3, 2], p=3, pads=[1, 0, 1, 1], referee="onnxruntime", opset=22),
        row(IMAGE, kernel_shape=[2, 2], p=4, strides=[2, 2], ceil_mode=1, referee="onnxruntime", opset=18),
        row(IMAGE, kernel_shape=[2, 2], dilations=[2, 3], opset=22),
        row(IMAGE, kernel_shape=[3, 2], auto_pad="SAME_UPPER", referee="onnxruntime", opset=22),
        row(LINE, kernel_shape=[2], opset=22),
        row(VOLUME, kernel_shape=[2, 2, 3], opset=22),
    ]


def convolved() -> list[Row]:
    w, b = real(6, 4, 3, 2, seed=2), real(6, seed=3)
    return [
        row(IMAGE, w, b),
        row(IMAGE, w, strides=[2, 1], pads=[1, 0, 2, 1]),
        row(IMAGE, w, b, dilations=[2, 3], pads=[1, 1, 1, 1]),
        row(IMAGE, w, strides=[2, 2], dilations=[1, 2]),
        row(IMAGE, real(6, 2, 3, 2, seed=2), b, group=2, pads=[1, 1, 1, 1]),
        row(IMAGE, real(6, 2, 3, 2, seed=2), group=2, strides=[2, 1], dilations=[1, 2]),
        row(IMAGE, real(4, 1, 3, 3, seed=2), real(4, seed=3), group=4, strides=[2, 2]),
        row(IMAGE, real(8, 1, 3, 3, seed=2), group=4, pads=[1, 1, 1, 1]),
        row(IMAGE, real(4, 1, 3, 3, seed=2), group=4, dilations=[2, 1]),
        row(IMAGE, real(4, 1, 3, 2, seed=2), group=4, strides=[1, 2]),
        row(IMAGE, w, strides=[2, 2], auto_pad="SAME_UPPER"),
        row(IMAGE, w, strides=[2, 2], auto_pad="SAME_LOWER"),
        row(IMAGE, w, auto_pad="VALID"),
        row(IMAGE, real(6, 4, 1, 1, seed=2), b),
        row(IMAGE, real(6, 2, 1, 1, seed=2), group=2),
        row(IMAGE, real(6, 4, 1, 1, seed=2), strides=[2, 2], pads=[1, 0, 0, 1]),
        row(IMAGE, real(6, 4, 1, 1, seed=2), strides=[2, 3]),
        row(IMAGE, real(3, 4, 7, 7, seed=2), strides=[2, 3], pads=[3, 3, 3, 3]),
        row(real(2, 4, 11), real(6, 4, 3, seed=2), b, strides=[2], pads=[1, 2]),
        row(real(2, 4, 11), real(4, 1, 3, seed=2), group=4, pads=[1, 1]),
        row(VOLUME, real(3, 2, 2, 3, 2, seed=2), real(3, seed=3), pads=[1, 0, 1, 1, 0, 1]),
        row(VOLUME, real(4, 1, 2, 3, 2, seed=2), group=2, strides=[2, 1, 1], referee="onnxruntime"),
    ]


def transposed() -> list[Row]:
    w, b = real(4, 3, 3, 2, seed=2), real(3, seed=3)

    def up(x: np.ndarray, w: np.ndarray, *rest: Any, **attributes: Any) -> Row:
        return row(x, w, *rest, referee="onnxruntime", **attributes)

    return [
        up(IMAGE, w, b),
        up(IMAGE, w, b, strides=[2, 3]),
        up(IMAGE, w, b, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        up(IMAGE, w, b, strides=[2, 3], pads=[1, 0, 2, 1]),
        up(IMAGE, w, strides=[3, 2], pads=[0, 0, 0, 1], output_padding=[2, 1]),
        up(IMAGE, w, dilations=[2, 3]),
        up(IMAGE, w, b, dilations=[2, 1], strides=[2, 2], pads=[1, 0, 1, 0]),
        up(IMAGE, w, b, strides=[2, 2], auto_pad="SAME_UPPER"),
        up(IMAGE, w, b, strides=[2, 2], auto_pad="SAME_LOWER"),
        up(IMAGE, w, b, strides=[2, 2], auto_pad="VALID"),
        up(IMAGE, w, b, strides=[2, 2], output_shape=[14, 17]),
        row(IMAGE, w, b, strides=[3, 2], output_shape=[22, 19]),
        up(IMAGE, real(4, 3, 3, 2, seed=2), real(6, seed=3), group=2, strides=[2, 1]),
        up(IMAGE, real(4, 1, 3, 2, seed=2), group=4, strides=[2, 2]),
        up(IMAGE, real(4, 2, 3, 2, seed=2), group=4, dilations=[2, 2]),
        up(real(2, 4, 11), real(4, 3, 3, seed=2), b, strides=[2], pads=[0, 1]),
        up(real(2, 4, 11), real(4, 1, 3, seed=2), group=4, dilations=[2]),
        up(VOLUME, real(2, 3, 2, 3, 2, seed=2), b, strides=[2, 1, 2], pads=[0, 1, 0, 1, 0, 0]),
        up(VOLUME, real(2, 2, 2, 3, 2, seed=2), real(4, seed=3), group=2, strides=[1, 2, 1]),
        up(VOLUME, real(2, 2, 2, 3, 2, seed=2), dilations=[2, 1, 2]),
    ]


def resized() -> list[Row]:
    def scaled(*scales: float, x: np.ndarray = IMAGE, **rest: Any) -> Row:
        return row(x, None, floats(*scales), **rest)

    def sized(*sizes: int, x: np.ndarray = IMAGE, **rest: Any) -> Row:
        return row(x, None, None, ints(*sizes), **rest)

    up, down = (1, 1, 2.0, 1.5), (1, 1, 0.6, 0.7)
    every = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    judge = {"referee": "onnxruntime"}  # where float32 rounds a coordinate
    rounding = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = floats(0, 0, 0.2, -0.1, 1, 1, 0.8, 1.2)
    return [
        scaled(1, 1, 2, 3),
        scaled(1, 1, 2, 3, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        *(
            sized(2, 4, 10, 5, coordinate_transformation_mode="asymmetric", nearest_mode=each, **judge)
            for each in rounding
        ),
        *(scaled(*down, nearest_mode=each, **judge) for each in rounding),
        *(scaled(*s, mode="linear", coordinate_transformation_mode=each) for each in every for s in (up, down)),
        *(sized(2, 4, 11, 6, mode="cubic", coordinate_transformation_mode=each) for each in every),
        sized(2, 4, 1, 1, mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
        scaled(*down, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
        scaled(*down, mode="linear", antialias=1),
        scaled(*down, mode="cubic", antialias=1),
        sized(2, 4, 3, 20, mode="cubic", antialias=1, exclude_outside=1),
        row(IMAGE, roi, None, ints(2, 4, 5, 6), mode="linear", extrapolation_value=10.0, **crop),
        row(IMAGE, roi, None, ints(2, 4, 1, 6), mode="nearest", **crop),
        row(IMAGE, floats(0.1, 0.2, 0.9, 0.7), None, ints(5, 4), mode="cubic", axes=[3, 2], **crop),
        row(IMAGE, None, floats(1.5, 2), mode="linear", axes=[-1, -2], referee="onnxruntime"),
        row(IMAGE, None, None, ints(20, 11), axes=[2, 3], keep_aspect_ratio_policy="not_larger", mode="linear"),
        row(IMAGE, None, None, ints(20, 11), axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
        row((IMAGE * 40 + 128).astype(np.uint8), None, floats(1, 1, 2, 0.5), mode="linear"),
        row(LINE, None, floats(1, 1, 1.7), mode="cubic"),
        row(VOLUME, None, None, ints(1, 2, 7, 3, 9), mode="linear"),
    ]


def grid_sampled() -> list[Row]:
    grid, deep = 1.2 * real(2, 5, 6, 2, seed=1), 1.2 * real(1, 3, 4, 2, 3, seed=1)
    paddings, modes = ("zeros", "border", "reflection"), ("nearest", "linear", "cubic")
    return [
        *(
            row(IMAGE, grid, mode=mode, padding_mode=padding, align_corners=corners, referee="onnxruntime")
            for mode in modes
            for padding in paddings
            for corners in (0, 1)
        ),
        row(IMAGE, grid, mode="bilinear", opset=16, referee="onnxruntime"),
        *(row(VOLUME, deep, mode=mode, padding_mode=padding) for mode in modes[:2] for padding in paddings),
        *(row(VOLUME, deep, mode="cubic", padding_mode=padding) for padding in ("zeros", "reflection")),
        row(LINE, real(2, 6, 1), mode="linear", align_corners=1),
    ]


def deformed() -> list[Row]:
    w, b = real(6, 4, 3, 2, seed=2), real(6, seed=3)
    return [
        row(IMAGE, w, real(2, 12, 5, 8, seed=4), referee="onnxruntime", opset=19),
        row(IMAGE, w, real(2, 12, 5, 8, seed=4), b, np.abs(real(2, 6, 5, 8, seed=5)), opset=19),
        row(IMAGE, w, real(2, 24, 4, 5, seed=4), b, offset_group=2, strides=[2, 2], pads=[1, 1, 1, 1], opset=19),
        row(
            IMAGE,
            real(6, 2, 3, 2, seed=2),
            real(2, 12, 3, 9, seed=4),
            group=2,
            dilations=[2, 2],
            pads=[0, 1, 0, 1],
            opset=19,
        ),
    ]


BOXES = floats(0.6, 0.2, 6.3, 5.1, 2.1, 1.4, 7.9, 3.3, -1.7, -0.8, 12.1, 9.4).reshape(3, 4)


ROUNDED = {"referee": "onnxruntime", "smooth": False}


def aligned() -> list[Row]:
    size = {"output_height": 3, "output_width": 2}
    return [
        row(IMAGE, BOXES, ints(0, 1, 1), sampling_ratio=2, **size),
        row(IMAGE, BOXES, ints(1, 0, 1), sampling_ratio=3, spatial_scale=0.7, mode="max", **size),
        row(IMAGE, BOXES, ints(0, 1, 1), sampling_ratio=2, coordinate_transformation_mode="output_half_pixel", **size),
        row(IMAGE, BOXES, ints(0, 1, 1), constants=(1,), spatial_scale=0.5, **size),
        row(IMAGE, BOXES, ints(0, 1, 1), **size),
        row(IMAGE, BOXES, ints(0, 1, 1), mode="max", constants=(1, 2), **size),
    ]


def suppressed() -> list[Row]:
    corners = positive(2, 6, 4) * floats(1, 1, 3, 3)
    scores, limits = real(2, 3, 6), (scalar(0.3), scalar(-0.5))
    every = {"constants": (0, 1, 2, 3, 4), "referee": "onnxruntime"}
    return [
        row(corners, scores, np.array(4), *limits, **every),
        row(corners, scores, np.array(2), *limits, center_point_box=1, **every),
        row(corners, scores, np.array(3), constants=(0, 1, 2), referee="onnxruntime"),
        row(corners, scores, constants=(0, 1), referee="onnxruntime"),
        row(corners, scores, np.array(4), *limits, referee="onnxruntime"),
    ]


def unpooled() -> list[Row]:
    """Indices are into the shape without `output_shape`; ONNX Runtime takes them to be into `output_shape`."""
    indices = np.array([0, 7, 20, 18, 27, 40, 47, 45]).reshape(1, 2, 2, 2)
    return [
        row(real(1, 2, 2, 2), indices, kernel_shape=[2, 3], strides=[2, 3], opset=11),
        row(real(1, 2, 2, 2), indices, ints(1, 2, 6, 9), kernel_shape=[2, 3], strides=[2, 3], opset=11),
        row(
            real(1, 2, 3),
            ints(0, 3, 5, 6, 9, 11).reshape(1, 2, 3),
            kernel_shape=[3],
            strides=[2],
            pads=[1, 0],
            opset=11,
        ),
    ]


CASES_IMAGE: dict[str, list[Row]] = {
    "AffineGrid": [
        row(real(2, 2, 3), ints(2, 3, 4, 5)),
        row(real(2, 2, 3), ints(2, 3, 4, 5), align_corners=1),
        row(real(2, 3, 4), ints(2, 1, 2, 3, 4)),
        row(real(2, 3, 4), ints(2, 1, 2, 3, 4), align_corners=1),
    ],
    "AveragePool": [*pooled(), *pooled(count_include_pad=1), *dilated(), *dilated(count_include_pad=1)],
    "Col2Im": [
        row(real(2, 12, 40), ints(7, 9), ints(3, 2)),
        row(real(2, 12, 15), ints(7, 9), ints(3, 2), strides=[3, 2], pads=[1, 0, 1, 1]),
        row(real(2, 12, 24), ints(7, 9), ints(3, 2), dilations=[2, 3], pads=[0, 1, 0, 1]),
        row(real(1, 8, 24), ints(3, 4, 5), ints(2, 2, 2)),
    ],
    "Conv": convolved(),
    "ConvTranspose": transposed(),
    "DeformConv": deformed(),
    "GlobalAveragePool": [row(IMAGE), row(LINE), row(VOLUME)],
    "GlobalLpPool": [
        row(x, referee="onnxruntime", **p) for x in (IMAGE, LINE, VOLUME) for p in ({}, {"p": 1}, {"p": 3})
    ],
    "GlobalMaxPool": [row(x, referee="onnxruntime") for x in (IMAGE, LINE, VOLUME)],
    "GridSample": grid_sampled(),
    "LpPool": norm_pooled(),
    "MaxPool": max_pooled(),
    "MaxRoiPool": [
        row(IMAGE, np.c_[int_array(3, 1, low=0, high=2), BOXES.clip(0)].astype(np.float32), **each, **ROUNDED)
        for each in ({"pooled_shape": [3, 2]}, {"pooled_shape": [2, 4], "spatial_scale": 0.6})
    ],
    "MaxUnpool": unpooled(),
    "NonMaxSuppression": suppressed(),
    "Resize": resized(),
    "RoiAlign": aligned(),
    "Upsample": [
        row(IMAGE, floats(1, 1, 2, 3), opset=9, referee="onnxruntime"),
        row(IMAGE, floats(1, 1, 1.5, 2), opset=9, mode="linear", referee="onnxruntime"),
    ],
}
