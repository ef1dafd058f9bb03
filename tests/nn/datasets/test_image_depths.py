"""Images of every mode that Pillow reads are decoded by a documented rule, or refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from opwright.errors import AttributeTypeError, AttributeValueError, FormatError
from opwright_nn.datasets import image_folder

images = pytest.importorskip("PIL.Image")

BYTES = np.arange(256, dtype=np.uint8).reshape(16, 16)
WORDS = BYTES.astype(np.uint16) * 257  # the same fractions of white
COLORS = np.stack([BYTES, BYTES.T, 255 - BYTES], axis=-1)
ALPHA = BYTES[::-1, :, None]


def write(path, array, mode=None, **options):
    """Write an array as an image file; return its path."""
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
def test_gray_values_are_fractions_of_white_for_every_depth(tmp_path, name, array, mode):
    options = {"tiffinfo": {262: 0}} if name == "inverted.tif" else {}
    path = write(tmp_path / name, array, mode, **options)
    gray = image_folder.decode(path, grayscale=True)
    assert (gray.shape, gray.dtype) == ((1, 16, 16), np.float32)
    np.testing.assert_allclose(gray[0], BYTES / 255, atol=1e-7)
    np.testing.assert_array_equal(image_folder.decode(path), np.repeat(gray, 3, axis=0))
    small = image_folder.decode(path, 8, grayscale=True)
    np.testing.assert_allclose(small.mean(), 0.5, atol=0.01)


def test_sixteen_bit_images_keep_all_levels(tmp_path):
    fine = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    gray = image_folder.decode(write(tmp_path / "a.png", fine), grayscale=True)
    np.testing.assert_array_equal(gray[0], fine / np.float32(65535))


def test_4095_is_white_in_twelve_bit_images(tmp_path):
    pixels = bytes([0xFF, 0xF8, 0x00])  # 4095 and 2048
    tags = {256: 2, 257: 1, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 1, 279: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    start = struct.pack("<2sHI", b"II", 42, 12) + pixels + b"\0"
    path = tmp_path / "12.tif"
    path.write_bytes(start + struct.pack("<H", len(tags)) + entries + bytes(4))
    gray = image_folder.decode(path, grayscale=True)
    np.testing.assert_array_equal(gray[0, 0], np.array([4095, 2048], np.float32) / 4095)


def test_one_bit_images_are_black_and_white(tmp_path):
    path = write(tmp_path / "1.png", BYTES > 127)
    np.testing.assert_array_equal(image_folder.decode(path, grayscale=True)[0], BYTES > 127)


def test_a_transparent_pixel_keeps_its_color(tmp_path):
    path = write(tmp_path / "a.png", np.concatenate([COLORS, ALPHA], axis=-1))
    expected = COLORS.transpose(2, 0, 1) / np.float32(255)
    np.testing.assert_array_equal(image_folder.decode(path), expected)


@pytest.mark.parametrize(("mode", "atol"), [("CMYK", 0), ("YCbCr", 4 / 255)])
def test_other_color_modes_become_rgb(tmp_path, mode, atol):
    path = write(tmp_path / "a.tif", COLORS, mode)
    expected = COLORS.transpose(2, 0, 1) / np.float32(255)
    np.testing.assert_allclose(image_folder.decode(path), expected, atol=atol)


@pytest.mark.parametrize("grayscale", [True, False])
@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (WORDS.astype(np.float32), "floats, 0 to 65535"),
        (WORDS.astype(np.float32) * np.nan, "floats, nan to nan"),
        (WORDS.astype(np.int32), "32-bit or signed integers, 0 to 65535"),
    ],
)
def test_images_with_an_unknown_range_of_values_require_levels(tmp_path, array, kind, grayscale):
    path = write(tmp_path / "a.tif", array)
    with pytest.raises(FormatError, match=rf"a\.tif: an image must have 8 .* got {kind}; pass le"):
        image_folder.decode(path, grayscale=grayscale)
    if "nan" not in kind:
        gray = image_folder.decode(path, grayscale=grayscale, levels=(0, 65535))
        np.testing.assert_allclose(gray[0], BYTES / 255, atol=1e-7)


def test_floats_between_black_and_white_are_unchanged(tmp_path):
    path = write(tmp_path / "a.tif", (WORDS / 65535).astype(np.float32))
    gray = image_folder.decode(path, grayscale=True)
    np.testing.assert_array_equal(gray[0], (WORDS / 65535).astype(np.float32))


def test_values_outside_the_levels_are_clipped(tmp_path):
    path = write(tmp_path / "a.png", BYTES)
    gray = image_folder.decode(path, grayscale=True, levels=(51, 204))[0]
    np.testing.assert_allclose(gray, np.clip((BYTES - 51.0) / 153, 0, 1), atol=1e-6)
    for levels, error, rule in (
        ((3, 3), AttributeValueError, "must differ"),
        (255, AttributeTypeError, "values of black and white, got 255"),
    ):
        with pytest.raises(error, match=rule):
            image_folder.decode(path, levels=levels)


def test_sixteen_bit_images_whose_0_is_white_are_inverted(tmp_path):
    path = write(tmp_path / "a.tif", WORDS, tiffinfo={262: 0})
    gray = image_folder.decode(path, grayscale=True)
    np.testing.assert_allclose(gray[0], 1 - BYTES / 255, atol=1e-7)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("depth", ["8", "16"])
def test_an_image_is_rotated_according_to_its_exif_orientation(tmp_path, orientation, depth):
    upright = BYTES[:8] if depth == "8" else WORDS[:8]
    turns = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.T,
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(a, 2).T,
        8: lambda a: np.rot90(a, -1),
    }
    stored = np.ascontiguousarray(turns[orientation](upright))
    tags = images.Exif()
    tags[274] = orientation
    path = write(tmp_path / "a.png", stored, exif=tags)
    gray = image_folder.decode(path, grayscale=True)
    np.testing.assert_allclose(gray[0], BYTES[:8] / 255, atol=1e-7)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_a_background_is_visible_through_transparent_pixels(tmp_path, mode):
    image = images.fromarray(np.concatenate([COLORS, ALPHA], axis=-1)).convert(mode)
    options = {"transparency": 0} if mode == "P" else {}
    image.save(tmp_path / "a.png", **options)
    expected = np.asarray(images.open(tmp_path / "a.png").convert("RGBA"), np.float32) / 255
    opacity = expected[..., 3:]
    expected = (expected[..., :3] * opacity + 0.5 * (1 - opacity)).transpose(2, 0, 1)
    mixed = image_folder.decode(tmp_path / "a.png", background=0.5)
    np.testing.assert_allclose(mixed, expected, atol=1e-6)
    plain = write(tmp_path / "b.png", BYTES)
    np.testing.assert_array_equal(
        image_folder.decode(plain, background=1), image_folder.decode(plain)
    )
