"""Names of files, samples and answers of an evaluation stay text, on a terminal and in the report."""

import base64
import io

import numpy as np
import pytest
import stores
from wicked import NAMES

from xbench.data.own.preview import SIZE, picture
from xbench.reports.html import page
from xbench.reports.quality.changed import LONGEST, pictures
from xbench.reports.quality.evaluation import tables

NUMBERS = dict.fromkeys(("needed", "p_value", "calibration", "post", "output", "limit", "labels"))


def evaluation(name, image=None):
    changed = {"sample": name, "label": name, "reference": name, "answer": name, "image": image}
    found = {"inputs": name, "metric": "top1", "content": "c", "samples": 9, "set_aside": False, "confidence": 0.95}
    found |= {"value": 0.5, "reference": 0.9, "difference": -0.4, "low": -0.5, "high": -0.3, "accepted": 0.01}
    found |= {"constant": 0.1, "changed": 9, "changed_share": 1.0, "gained": 0, "lost": 4, "less": False}
    found |= {"verdict": "worse", "worst": [changed]}
    made = stores.record(name, "torch", status="FAIL", message=name)
    return made | {"times": None, "evaluation": NUMBERS | found}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_an_evaluation_of_wicked_names_is_text(name):
    record = evaluation(name)
    (table,) = tables([record])
    words = [table.caption, *table.header, *table.notes, *(word for line in table.lines for word in line)]
    assert len(table.notes) == 3 and all(word.isprintable() for word in words)
    own = page([], {"evaluate": [record]})
    assert "<script>alert" not in own and own.count("<script") == page([], {"evaluate": [evaluation("x")]}).count(
        "<script"
    )


def pixels(image):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(image))))


@pytest.mark.parametrize("shape", [(1, 8, 6), (8, 6, 1)])
def test_a_picture_is_from_the_least_value_to_the_largest(shape):
    sample = np.linspace(-3, 5, 48, dtype=np.float32).reshape(shape)
    shown = pixels(picture(sample))
    assert shown.shape == (8, 6)
    assert np.array_equal(shown.ravel(), np.round(np.linspace(0, 255, 48)))


def test_colours_are_those_of_the_sample():
    sample = np.zeros((3, 300, 200), np.float32)
    sample[1] = 1  # green
    shown = pixels(picture(sample))
    assert max(shown.shape) == SIZE and shown.shape[2] == 3
    assert shown[..., 1].min() > 250 and shown[..., [0, 2]].max() < 5


@pytest.mark.parametrize(
    "sample",
    [np.zeros(64), np.zeros((8, 8)), np.zeros((2, 8, 8)), np.zeros((1, 3, 90)), np.zeros((1, 8, 8), bool)],
)
def test_what_has_no_shape_of_an_image_has_no_picture(sample):
    assert picture(sample) is None


def test_a_sample_without_numbers_has_a_picture():
    assert not pixels(picture(np.full((1, 8, 8), np.nan))).any()


@pytest.mark.parametrize("size", [1.7e308, 5e-324])
def test_a_picture_of_extreme_numbers_is_that_of_usual_ones(size):
    signs = np.where(np.eye(8)[None] > 0, 1.0, -1.0)
    with np.errstate(all="raise"):
        assert np.array_equal(pixels(picture(signs * size)), pixels(picture(signs)))


def test_the_report_shows_what_changed():
    image = picture(np.eye(8, dtype=np.float32)[None])
    own = page([], {"evaluate": [evaluation("cat.png", image)]})
    assert f'<img src="data:image/png;base64,{image}"' in own
    assert "<figcaption>cat.png: cat.png instead of cat.png, the label cat.png</figcaption>" in own


HOSTILE = {
    "markup": '"><script>alert(1)</script>',
    "svg": base64.b64encode(b"<svg onload='alert(1)'/>").decode(),
    "html": base64.b64encode(b"<html>").decode(),
    "an address": "https://example.org/a.png",
    "large": base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(LONGEST)).decode(),
    "a number": 5,
    "a list": ["x"],
    "accents": "é" * 8,
    "nothing": "",
}


@pytest.mark.parametrize("image", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_picture_in_a_store_is_not_shown(image):
    record = evaluation("cat.png", image)
    assert pictures([record]) == []
    assert "<figure><img" not in page([], {"evaluate": [record]})


@pytest.mark.parametrize("field", ["sample", "label", "reference", "answer"])
def test_a_record_that_lacks_a_field_of_a_picture_is_left_out_in_one_line(field):
    record = evaluation("cat.png", picture(np.eye(8)[None]))
    record["evaluation"]["worst"] = [*record["evaluation"]["worst"] * 5, {"image": picture(np.eye(8)[None])}]
    record["evaluation"]["worst"][-1] |= {
        name: "x" for name in ("sample", "label", "reference", "answer") if name != field
    }
    assert "1 line of the store could not be read" in page([], {"evaluate": [record]})
