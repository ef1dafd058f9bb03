"""Laws of images of every kind that Pillow reads: right by a stated rule, or refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from opwright.errors import FormatError
from opwright_nn.datasets import image_folder

images = pytest.importorskip("PIL.Image")

BYTES = np.arange(256, dtype=np.uint8).reshape(16, 16)
WORDS = BYTES.astype(np.uint16) * 257  # in every step of 8 bits, the same share of white
COLOURS = np.stack([BYTES, BYTES.T, 255 - BYTES], axis=-1)
ALPHA = BYTES[::-1, :, None]


def write(path, array, mode=None, **options):
    """Write an array as a file of an image; return its path."""
    image = images.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


@pytest.mark.parametrize(
    ("name", "array", "mode"),
    [
        ("8.png", BYTES, None),
        ("8.bmp", BYTES, None),
        ("palette.png", BYTES, "P"),
        ("palette.gif", BYTES, None),
        ("alpha.png", np.stack([BYTES, BYTES.T], axis=-1), None),
        ("inverted.tif", BYTES, None),
        ("16.png", WORDS, None),
        ("16.tif", WORDS, None),
        ("16_big_endian.tif", WORDS.astype(">u2"), None),
        ("16.ppm", WORDS, None),
    ],
)
def test_gray_is_the_share_of_white_whatever_the_depth(tmp_path, name, array, mode):
    options = {"tiffinfo": {262: 0}} if name == "inverted.tif" else {}
    path = write(tmp_path / name, array, mode, **options)
    gray = image_folder.decode(path, grayscale=True)
    assert (gray.shape, gray.dtype) == ((1, 16, 16), np.float32)
    np.testing.assert_allclose(gray[0], BYTES / 255, atol=1e-7)
    np.testing.assert_array_equal(image_folder.decode(path), np.repeat(gray, 3, axis=0))
    small = image_folder.decode(path, 8, grayscale=True)
    np.testing.assert_allclose(small.mean(), 0.5, atol=0.01)


def test_sixteen_bits_keep_all_their_levels(tmp_path):
    fine = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    gray = image_folder.decode(write(tmp_path / "a.png", fine), grayscale=True)
    np.testing.assert_array_equal(gray[0], fine / np.float32(65535))


def test_twelve_bits_are_white_at_4095(tmp_path):
    pixels = bytes([0xFF, 0xF8, 0x00])  # 4095 and 2048
    tags = {256: 2, 257: 1, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 1, 279: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    start = struct.pack("<2sHI", b"II", 42, 12) + pixels + b"\0"
    path = tmp_path / "12.tif"
    path.write_bytes(start + struct.pack("<H", len(tags)) + entries + bytes(4))
    gray = image_folder.decode(path, grayscale=True)
    np.testing.assert_array_equal(gray[0, 0], np.array([4095, 2048], np.float32) / 4095)


def test_one_bit_is_black_or_white(tmp_path):
    path = write(tmp_path / "1.png", BYTES > 127)
    np.testing.assert_array_equal(image_folder.decode(path, grayscale=True)[0], BYTES > 127)


def test_a_transparent_pixel_keeps_its_colour(tmp_path):
    path = write(tmp_path / "a.png", np.concatenate([COLOURS, ALPHA], axis=-1))
    expected = COLOURS.transpose(2, 0, 1) / np.float32(255)
    np.testing.assert_array_equal(image_folder.decode(path), expected)


@pytest.mark.parametrize(("mode", "atol"), [("CMYK", 0), ("YCbCr", 4 / 255)])
def test_other_colours_become_red_green_and_blue(tmp_path, mode, atol):
    path = write(tmp_path / "a.tif", COLOURS, mode)
    expected = COLOURS.transpose(2, 0, 1) / np.float32(255)
    np.testing.assert_allclose(image_folder.decode(path), expected, atol=atol)


@pytest.mark.parametrize("grayscale", [True, False])
@pytest.mark.parametrize(
    ("array", "options", "kind"),
    [
        ((WORDS / 65535).astype(np.float32), {}, "floats"),
        (WORDS.astype(np.int32), {}, "32-bit or signed integers"),
        (WORDS, {"tiffinfo": {262: 0}}, "16-bit numbers of which 0 is white"),
    ],
)
def test_numbers_of_unknown_range_are_refused(tmp_path, array, options, kind, grayscale):
    path = write(tmp_path / "a.tif", array, **options)
    with pytest.raises(FormatError, match=rf"a\.tif: an image must have 8 .* got {kind}; read"):
        image_folder.decode(path, grayscale=grayscale)
