"""Helpers of the tests of a user's samples."""

import io
import os

import numpy as np
import pytest
from PIL import Image

from xbench import data
from xbench.data import own


def network(*samples, shapes=None, dtypes=None, facts=None):
    """What `model.json` says of a network: inputs a, b, ... (x if there is one) with these shapes of a sample, and more
    in whole `shapes` by name."""
    names = ["x"] if len(samples) == 1 and not shapes else [chr(97 + place) for place in range(len(samples))]
    every = {name: ["batch", *shape] for name, shape in zip(names, samples, strict=True)} | (shapes or {})
    usual = {"low": -1.0, "high": 1.0, "special": (), "mask": 0, "why": ""}
    inputs = [
        {
            "name": name,
            "shape": shape,
            "dtype": (dtypes or {}).get(name, "float32"),
            **usual,
            **(facts or {}).get(name, {}),
        }
        for name, shape in every.items()
    ]
    return {"name": "own", "inputs": inputs, "labels": {"dtype": "int64", "low": 0, "high": 10, "shape": ["batch"]}}


def read(word, info, size=100, labels=None, function=None):
    """Every input of all samples."""
    batches = list(own.batches(word, info, size, labels, function))
    return [np.concatenate([batch.inputs[place] for batch in batches]) for place in range(len(info["inputs"]))]


def labels_of(word, info, size=100, labels=None, function=None):
    """The labels of all samples."""
    return [label for batch in own.batches(word, info, size, labels, function) for label in batch.labels]


def refused(word, info, labels=None, function=None):
    """The fault, in one line."""
    with pytest.raises(data.BadData) as error:
        list(own.batches(word, info, 8, labels, function))
    assert str(error.value).isprintable()
    return str(error.value)


def save(name, pixels, **options):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    Image.fromarray(pixels).save(name, **options)


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
