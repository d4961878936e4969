"""A user's images: compared with what NumPy computes of their pixels; faults are one line."""

import os
import struct
import zlib

import numpy as np
import pytest
from own_kit import labels_of, network, png, read, refused, save
from PIL import Image

from xbench.data import own
from xbench.data.own import preprocessing

RANDOM = np.random.default_rng(3)
COLOUR, GRAY = network((3, 8, 8)), network((1, 8, 8))
SQUARE = RANDOM.integers(0, 256, (8, 8, 3), np.uint8)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_pixels_of_the_right_size_are_only_scaled():
    save("photos/a.png", SQUARE)
    given = read("photos", COLOUR)[0]
    assert given.dtype == np.float32
    np.testing.assert_allclose(given[0], np.moveaxis(SQUARE, 2, 0) / 255, rtol=1e-6)
    given = read("photos:mean=0.485/0.456/0.406,std=0.229/0.224/0.225", COLOUR)[0][0]
    for channel, (mean, std) in enumerate([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]):
        np.testing.assert_allclose(given[channel], (SQUARE[..., channel] / 255 - mean) / std, rtol=1e-5, atol=1e-6)
    given = read("photos:scale=1,mean=127.5,std=127.5,color=bgr", COLOUR)[0][0]
    np.testing.assert_allclose(given[0], SQUARE[..., 2] / 127.5 - 1, rtol=1e-5, atol=1e-6)


def test_axes_and_types_are_those_of_the_network():
    save("photos/a.png", SQUARE)
    np.testing.assert_allclose(read("photos", network((8, 8, 3)))[0][0], SQUARE / 255, rtol=1e-6)
    for dtype in ("uint8", "int32"):
        given = read("photos", network((3, 8, 8), dtypes={"x": dtype}))[0]
        assert given.dtype.name == dtype and (given[0] == np.moveaxis(SQUARE, 2, 0)).all()
    luma = SQUARE @ [0.299, 0.587, 0.114]
    assert abs(read("photos:scale=1", GRAY)[0][0, 0] - luma).max() <= 1
    assert abs(read("photos:scale=1", network((8, 8)))[0][0] - luma).max() <= 1
    assert read("photos:axes=nhwc", network((3, 9, 3)))[0].shape == (1, 3, 9, 3)
    assert read("photos", network((3, 9, 3)))[0].shape == (1, 3, 9, 3)


def test_a_photo_is_resized_by_its_shorter_side_and_cut_in_the_middle():
    wide = RANDOM.integers(0, 256, (20, 45, 3), np.uint8)
    save("photos/wide.png", wide)
    save("tall/tall.png", wide.transpose(1, 0, 2))
    nearest = wide[np.arange(10) * 2 + 1][:, ((np.arange(22) + 0.5) * 45 / 22).astype(int)]  # 22 of 22.5
    given = read("photos:resize=10,interpolation=nearest,scale=1", COLOUR)[0][0]
    assert (given == nearest[1:9, 7:15].transpose(2, 0, 1)).all()
    given = read("tall:resize=10,interpolation=nearest,scale=1", COLOUR)[0][0]
    assert (given == nearest[1:9, 7:15].transpose(2, 1, 0)).all()
    covered = Image.fromarray(wide).resize((18, 8), Image.Resampling.BILINEAR)
    assert (read("photos:scale=1", COLOUR)[0][0] == np.asarray(covered)[:, 5:13].transpose(2, 0, 1)).all()
    exact = Image.fromarray(wide).resize((8, 9), Image.Resampling.BICUBIC)
    given = read("photos:resize=9x8,interpolation=bicubic,scale=1", COLOUR)[0][0]
    assert (given == np.asarray(exact)[0:8].transpose(2, 0, 1)).all()


def test_an_image_of_another_form_is_cut_so_that_it_covers_the_input():
    save("photos/a.png", RANDOM.integers(0, 256, (30, 10, 3), np.uint8))
    assert read("photos", network((3, 8, 32)))[0].shape == (1, 3, 8, 32)
    assert read("photos:crop=8x32", network((3, 8, 32)))[0].shape == (1, 3, 8, 32)


def test_images_of_every_mode_become_eight_bits():
    gray = SQUARE[..., 0]
    save("gray/a.png", gray)
    save("sixteen/a.png", gray.astype(np.uint16) * 257)
    save("alpha/a.png", np.dstack([gray, gray, gray, SQUARE[..., 1]]))
    save("two/a.png", np.dstack([gray, SQUARE[..., 1]]))
    for name in ("palette", "cmyk", "bits", "still"):
        os.mkdir(name)
    picture = Image.fromarray(gray)
    picture.convert("P").save("palette/a.png", transparency=bytes(range(256)))
    Image.fromarray(255 - np.dstack([gray * 0 + 55] * 3 + [gray * 0 + 255])).convert("CMYK").save(
        "cmyk/a.jpg", quality=100
    )
    picture.save("still/a.gif", save_all=True, append_images=[Image.fromarray(255 - gray)])
    Image.fromarray(gray > 127).save("bits/a.png")
    for name in ("gray", "sixteen", "alpha", "two", "palette", "still"):
        assert (read(f"{name}:scale=1", COLOUR)[0] == gray).all(), name
        assert abs(read(f"{name}:scale=1", GRAY)[0] - gray).max() <= 1, name
    assert (read("bits:scale=1", GRAY)[0] == (gray > 127) * 255).all()
    assert abs(read("cmyk:scale=1", COLOUR)[0] - 200).max() <= 3


def test_a_photo_is_turned_as_its_camera_was_held():
    exif = Image.Exif()
    exif[0x0112] = 6  # its right side was up
    save("photos/a.png", SQUARE, exif=exif)
    assert (read("photos:scale=1", COLOUR)[0][0] == np.rot90(SQUARE, -1).transpose(2, 0, 1)).all()


@pytest.mark.parametrize("size", [1, 4, 99])
def test_images_in_subfolders_have_their_names_as_labels(size):
    for place, name in enumerate(["dog/10.png", "dog/9.png", "cat/a.JPG", "10/a.webp", "9/a.bmp", "cat/b.jpeg"]):
        save(name, np.full((8, 8, 3), place * 40, np.uint8))
    (batch, *rest) = own.batches(".", COLOUR, size)
    names = [name for each in (batch, *rest) for name in each.names]
    assert names == ["9/a.bmp", "10/a.webp", "cat/a.JPG", "cat/b.jpeg", "dog/9.png", "dog/10.png"]
    assert labels_of(".", COLOUR, size) == labels_of(".", COLOUR, size, "folders") == [1, 0, 2, 2, 3, 3]
    np.save("own.npy", np.arange(6))
    assert labels_of(".", COLOUR, size, "own.npy") == [0, 1, 2, 3, 4, 5]
    save("alone.png", SQUARE)
    os.remove("own.npy")
    assert next(own.batches(".", COLOUR, 9)).labels is None
    assert refused(".", COLOUR, "folders") == "alone.png is in no subfolder, whose name would be its label"


OPTIONS = {
    "rezise=8": "unknown option rezise: did you mean resize?",
    "zoom=8": "unknown option zoom: they are resize, crop, mean, std, scale, color, interpolation, axes",
    "resize=8,resize=9": "resize is there twice",
    "resize": "resize has no value, as in resize=256",
    "resize=0": "resize=0 is no size, as 256 or 224x224, height x width",
    "resize=-8": "resize=-8 is no size, as 256 or 224x224, height x width",
    "crop=7": "crop=7 is not the size that the network takes, 8x8",
    "mean=a": "mean=a is no number, or numbers as 0.485/0.456/0.406",
    "mean=nan": "mean=nan is no number, or numbers as 0.485/0.456/0.406",
    "mean=1/2": "mean has 2 numbers, and the images have 3 channels",
    "std=1/0/1": "std is 0, by which nothing can be divided",
    "scale=0": "scale is 0, by which nothing can be divided",
    "color=rbg": "unknown color rbg: did you mean rgb?",
    "color=gray": "color=gray does not give the 3 channels of (batch, 3, 8, 8)",
    "axes=nhwc": "has images, and the network takes (batch, 3, 8, 8): no 1 or 3 channels, and not nhwc",
}


@pytest.mark.parametrize("options", OPTIONS)
def test_options_of_images_that_are_wrong(options):
    save("photos/a.png", SQUARE)
    line = OPTIONS[options]
    assert refused(f"photos:{options}", COLOUR) == f"photos{'' if line.startswith('has') else ':'} {line}"


def test_networks_that_take_no_images():
    save("photos/a.png", SQUARE)
    assert refused("photos", network((3, 8, 8), (2,))) == "photos has images, and the network takes a, b"
    flat = "photos has images, and the network takes (batch, 784): no 1 or 3 channels"
    assert refused("photos", network((784,))) == flat
    assert refused("photos", network(shapes={"x": [3, 8, 8]})).endswith("takes (3, 8, 8): no 1 or 3 channels")
    whole = network((3, 8, 8), dtypes={"x": "uint8"})
    assert refused("photos:mean=1", whole) == "photos: the network takes pixels of uint8 as they are, without mean"
    assert refused("photos", network((3, 8, 8), dtypes={"x": "int8"})).startswith("a.png: x[")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claiming(width, height):
    """A PNG that has no pixels."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IEND", b"")


PICTURES = {
    "bomb": (claiming(60_000, 60_000), "cat/a.png cannot be read: it has more than 100,000,000 pixels"),
    "large": (claiming(12_000, 10_000), "cat/a.png cannot be read: it has more than 100,000,000 pixels"),
    "cut": (png(SQUARE)[:-60], "cat/a.png cannot be read: "),
    "other": (b"<svg></svg>", "cat/a.png cannot be read: it is no image of PNG, JPEG, BMP, WEBP, GIF"),
    "program": (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n",
        "cat/a.png cannot be read: it is no image of PNG",
    ),
    "empty": (b"", "cat/a.png cannot be read: it is no image of PNG, JPEG, BMP, WEBP, GIF"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_pictures_that_cannot_be_read_are_one_line(kind, tmp_path):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    data, line = PICTURES[kind]
    (tmp_path / "photos" / "cat" / "a.png").write_bytes(data)
    assert refused("photos", COLOUR).startswith(line)


def test_what_is_no_picture_is_not_opened(tmp_path):
    (tmp_path / "photos").mkdir()
    os.mkfifo("photos/a.png")
    assert refused("photos", COLOUR).endswith("photos/a.png: it is no regular file")
    os.remove("photos/a.png")
    os.symlink("b\n.png", "photos/b\n.png")
    assert refused("photos", COLOUR) == r"cannot read photos/b\n.png: Too many levels of symbolic links"
    os.remove("photos/b\n.png")
    os.symlink(".", "photos/loop")
    assert refused("photos", COLOUR).startswith("photos holds no samples: images, test_data_set_0, or files .npy")
    save("photos/a.png", SQUARE)
    assert read("photos", COLOUR)[0].shape[0] == 2  # a.png and loop/a.png: one level, not more


def test_an_image_that_would_grow_without_bounds_is_refused(monkeypatch):
    save("photos/thin.png", np.zeros((1, 200, 3), np.uint8))
    monkeypatch.setattr(preprocessing, "PIXELS", 5000)
    assert refused("photos:resize=8", COLOUR) == "thin.png: resized, it would have 8 x 1600 pixels, more than 5,000"
    assert refused("photos:resize=4x4", COLOUR) == "thin.png: its size is 4x4, less than the crop, 8x8"
