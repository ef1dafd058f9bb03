"""Augmentation: shapes, dtypes, random streams, and the pixels that must not change."""

from __future__ import annotations

import numpy as np
import pytest

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn.datasets import augment

RANDOM = {
    "color_jitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "hue": 0.2},
    "cutout": {"size": (3, 5)},
    "random_crop": {"size": (12, 9), "padding": 2},
    "random_horizontal_flip": {},
    "random_resized_crop": {"size": (12, 9)},
    "random_rotation": {"degrees": 40},
    "random_vertical_flip": {},
}
SIZE = (12, 9)


def make_images(dtype, n=6, channels=3):
    images = np.random.default_rng(2).integers(0, 256, (n, channels, *SIZE), np.uint8)
    return images if dtype == "uint8" else (images / 255).astype(dtype)


def stream(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("name", RANDOM)
def test_images_depend_on_the_stream_but_keep_dtype_and_range_and_inputs_are_unchanged(name, dtype):
    change, options, images = getattr(augment, name), RANDOM[name], make_images(dtype)
    kept = images.copy()
    first, again, other = (change(images, stream(seed), **options) for seed in (0, 0, 1))
    assert (first.dtype, first.shape) == (images.dtype, images.shape)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(images, kept)
    assert first.min() >= 0
    assert first.max() <= (255 if dtype == "uint8" else 1 + 1e-6)
    single = change(images[0], stream(), **options)
    assert (single.dtype, single.shape) == (images.dtype, images.shape[1:])
    assert change(images[:0], stream(), **options).shape == (0, 3, *SIZE)


@pytest.mark.parametrize(
    "name", ["random_horizontal_flip", "random_vertical_flip", "random_rotation"]
)
def test_random_numbers_are_drawn_for_each_image_of_a_batch(name):
    image = make_images("float32", 1)
    changed = getattr(augment, name)(np.repeat(image, 32, axis=0), stream(), **RANDOM[name])
    assert len({one.tobytes() for one in changed}) >= 2


def test_flips_mirror_with_their_probability():
    images = make_images("uint8", 400)
    for change, mirrored in (
        (augment.random_horizontal_flip, images[..., ::-1]),
        (augment.random_vertical_flip, images[..., ::-1, :]),
    ):
        np.testing.assert_array_equal(change(images, stream(), p=1.0), mirrored)
        np.testing.assert_array_equal(change(images, stream(), p=0.0), images)
        flipped = (change(images, stream(), p=0.25) == mirrored).all(axis=(1, 2, 3)).mean()
        assert 0.18 < flipped < 0.32


def test_a_crop_is_a_region_of_the_padded_image():
    images = np.arange(1, 1 + 50 * 4 * 5, dtype=np.float32).reshape(50, 1, 4, 5)
    parts = augment.random_crop(images, stream(), (3, 2), padding=1, fill=0)
    places = set()
    for part, image in zip(parts[:, 0], np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))):
        equal = [
            (row, column)
            for row in range(4)
            for column in range(6)
            if (image[row : row + 3, column : column + 2] == part).all()
        ]
        assert equal
        places.update(equal)
    assert len(places) > 10
    with pytest.raises(ShapeError, match="padding=0 must be at least 5 × 6, got 4 × 5; pass"):
        augment.random_crop(images, stream(), (5, 6))


def test_resized_crops_have_areas_and_aspect_ratios_in_the_given_ranges():
    y, x = np.mgrid[:200, :200].astype(np.float64) / 200
    image = np.stack([y, x])[None].repeat(50, 0)
    parts = augment.random_resized_crop(image, stream(), 50, scale=(0.25, 0.5), ratio=(0.5, 2.0))
    heights = (parts[:, 0, -1, 25] - parts[:, 0, 0, 25]) * 50 / 49
    widths = (parts[:, 1, 25, -1] - parts[:, 1, 25, 0]) * 50 / 49
    areas, ratios = heights * widths, widths / heights
    assert (areas.min() > 0.22, areas.max() < 0.53) == (True, True)
    assert (ratios.min() > 0.45, ratios.max() < 2.2) == (True, True)
    assert areas.std() > 0.02
    whole = augment.random_resized_crop(image[:1], stream(), 50, scale=(1, 1), ratio=(1, 1))
    np.testing.assert_allclose(whole, augment.resize(image[:1], 50), rtol=1e-12)


def test_resizing_preserves_constants_and_means():
    image = make_images("float64")
    np.testing.assert_allclose(augment.resize(np.ones((1, 1, 7, 5)), (3, 11)), 1, rtol=1e-12)
    np.testing.assert_allclose(augment.resize(image, SIZE), image, rtol=1e-12)
    np.testing.assert_allclose(augment.resize(image, 3).mean(), image.mean(), rtol=0.05)


def test_rotations_by_90_degrees_only_move_pixels():
    square = make_images("float64")[..., :9, :]
    for quarters in range(-2, 3):
        turned = augment.rotate(square, 90.0 * quarters)
        np.testing.assert_allclose(turned, np.rot90(square, quarters, (2, 3)), atol=1e-12)
    np.testing.assert_allclose(
        augment.rotate(square, np.arange(6.0) * 90)[3], np.rot90(square[3], 3, (1, 2)), atol=1e-12
    )
    filled = augment.rotate(np.full((1, 5, 5), 0.25), 45.0, fill=0.25)
    np.testing.assert_allclose(filled, 0.25, rtol=1e-12)


def test_neutral_factors_do_not_change_colors():
    for dtype in ("uint8", "float64"):
        images = make_images(dtype)
        for adjust in (
            augment.adjust_brightness,
            augment.adjust_contrast,
            augment.adjust_saturation,
        ):
            np.testing.assert_allclose(adjust(images, 1.0), images, rtol=1e-12)
        np.testing.assert_allclose(augment.adjust_hue(images, 0.0), images, rtol=1e-12)
    gray = make_images("uint8", channels=1)
    np.testing.assert_array_equal(augment.adjust_saturation(gray, 0.1), gray)
    np.testing.assert_array_equal(augment.adjust_hue(gray, 0.1), gray)


def test_hues_are_shifted_around_the_color_circle():
    red, green, blue = np.eye(3).reshape(3, 3, 1, 1)
    np.testing.assert_allclose(augment.adjust_hue(red, 1 / 3), green, atol=1e-12)
    np.testing.assert_allclose(augment.adjust_hue(red, -1 / 3), blue, atol=1e-12)
    images = make_images("float64")
    there = augment.adjust_hue(images, np.full(6, 0.4))
    np.testing.assert_allclose(augment.adjust_hue(there, -0.4), images, atol=1e-9)


def test_a_cutout_fills_a_rectangle_around_a_pixel():
    images = np.ones((200, 2, 12, 9), np.float32)
    holes = augment.cutout(images, stream(), (4, 3), fill=0.5) == 0.5
    np.testing.assert_array_equal(holes[:, 0], holes[:, 1])
    areas = holes[:, 0].sum(axis=(1, 2))
    assert (areas.min() >= 2, areas.max()) == (True, 12)
    assert 0.2 < (augment.cutout(images, stream(), 2, p=0.3) == 0).any(axis=(1, 2, 3)).mean() < 0.4


def test_mixup_mixes_images_and_labels_equally():
    images = np.eye(5, dtype=np.float32)
    mixed, labels = augment.mixup(images, np.arange(5), stream(3), alpha=1.0, classes=5)
    np.testing.assert_allclose(mixed, labels, rtol=1e-6)
    np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-6)
    assert ((labels > 0).sum(axis=1) == 2).any()
    soft = augment.mixup(images, np.eye(5), stream(3), alpha=1.0)[1]
    np.testing.assert_array_equal(soft, labels)
    assert (
        augment.mixup(images.astype(np.uint8), [[0]] * 5, stream(), classes=2)[0].dtype == "uint8"
    )


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (
            lambda a, x: a.random_vertical_flip(x.astype(int), stream()),
            AttributeTypeError,
            "uint8 in",
        ),
        (lambda a, x: a.random_vertical_flip(x[0, 0], stream()), ShapeError, r"shape \[12, 9\]"),
        (lambda a, x: a.random_vertical_flip(x, 3), AttributeTypeError, "numpy.random.Generator"),
        (lambda a, x: a.random_vertical_flip(x, stream(), p=2), AttributeValueError, "p must be"),
        (lambda a, x: a.adjust_hue(x.transpose(0, 2, 3, 1), 0), ShapeError, "1 or 3 channels"),
        (lambda a, x: a.adjust_hue(x, 0.6), AttributeValueError, r"in \[-0.5, 0.5\], got 0.6"),
        (lambda a, x: a.adjust_contrast(x, -1.0), AttributeValueError, "at least 0, got -1"),
        (lambda a, x: a.adjust_contrast(x, np.ones(2)), ShapeError, "one for each of 6 images"),
        (lambda a, x: a.rotate(x, np.ones(2)), ShapeError, "one for each of 6 images"),
        (
            lambda a, x: a.random_resized_crop(x, stream(), 4, scale=(1, 0.5)),
            AttributeValueError,
            "swap",
        ),
        (lambda a, x: a.mixup(x, np.arange(6), stream(), classes=5), AttributeValueError, "0 to 5"),
        (lambda a, x: a.mixup(x, np.arange(6), stream()), AttributeTypeError, "classes must be"),
        (lambda a, x: a.RandomHorizontalFlip, AttributeError, "random_horizontal_flip"),
    ],
)
def test_the_error_names_a_wrong_argument(call, error, rule):
    with pytest.raises(error, match=rule):
        call(augment, make_images("float32"))
