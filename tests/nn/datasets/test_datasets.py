"""The digits data set, and valid and damaged IDX files."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, FormatError
from opwright_nn.datasets import idx


def idx_bytes(array, code):
    big = array.astype(array.dtype.newbyteorder(">"))
    header = struct.pack(">HBB", 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + big.tobytes()


def write(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    return path


def test_the_digits_are_complete():
    train, test = nn.datasets.digits.load(seed=1)
    assert (len(train.images), len(test.images)) == (1437, 360)
    for part in (train, test):
        images, labels = part
        assert (images.dtype, labels.dtype) == (np.float32, np.int64)
        assert (images.shape, labels.shape) == ((len(labels), 64), (len(images), 1))
        assert (images.min(), images.max()) == (0.0, 1.0)
    labels = np.concatenate([train.labels, test.labels])
    # The class counts from the documentation of the data set.
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    np.testing.assert_array_equal(np.bincount(labels[:, 0]), counts)
    assert (
        round(float(np.concatenate([train.images, test.images]).astype(float).sum() * 16)) == 561718
    )


def test_the_split_of_the_digits_depends_on_the_seed_and_its_parts_are_disjoint():
    train, test = nn.datasets.digits.load(seed=3)
    again, _ = nn.datasets.digits.load(seed=3)
    assert len(nn.datasets.digits.load(seed=0)) == 2
    other, _ = nn.datasets.digits.load(seed=4)
    np.testing.assert_array_equal(train.images, again.images)
    assert not np.array_equal(train.images, other.images)
    rows = {(*image, *label) for image, label in zip(train.images.tolist(), train.labels.tolist())}
    assert not any(
        (*image, *label) in rows for image, label in zip(test.images.tolist(), test.labels.tolist())
    )


@pytest.mark.parametrize(("fraction", "n_test"), [(0.5, 899), (1e-9, 1), (1 - 1e-9, 1796)])
def test_no_split_of_the_digits_is_empty(fraction, n_test):
    train, test = nn.datasets.digits.load(test_fraction=fraction)
    assert len(test.images) == n_test
    assert len(train.images) == 1797 - n_test


@pytest.mark.parametrize("fraction", [0, 1, -0.1, float("nan")])
def test_a_fraction_outside_0_and_1_is_refused(fraction):
    with pytest.raises(AttributeValueError, match=r"digits.load: test_fraction must be .*\(0, 1\)"):
        nn.datasets.digits.load(test_fraction=fraction)


@pytest.mark.parametrize("seed", [1.5, "1", True, None])
def test_a_seed_of_a_wrong_type_is_refused(seed):
    with pytest.raises(AttributeTypeError, match=r"digits\.load: seed must be an int"):
        nn.datasets.digits.load(seed=seed)


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("dtype", "code"),
    [("u1", 8), ("i1", 9), ("i2", 0xB), ("i4", 0xC), ("f4", 0xD), ("f8", 0xE)],
)
def test_idx_reads_the_written_array(tmp_path, dtype, code, squeeze):
    array = np.arange(-12, 12).astype(dtype).reshape(2, 3, 4)
    read_array = idx.read(write(tmp_path, squeeze(idx_bytes(array, code))))
    assert read_array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read_array, array)
    read_array[0] = 1  # a separate array


def test_idx_reads_files_without_elements(tmp_path):
    assert idx.read(write(tmp_path, idx_bytes(np.zeros((0, 28, 28), "u1"), 8))).shape == (0, 28, 28)


GOOD = idx_bytes(np.arange(6, dtype="u1").reshape(2, 3), 8)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "the magic number must have 4 bytes, got 0"),
        (GOOD[:3], "the magic number must have 4 bytes, got 3"),
        (b"\x89PNG" + GOOD, "must begin with 00 00"),
        (b"\0\0\x07\x01" + GOOD, "must begin with 00 00"),
        (b"\0\0\x08\x00" + GOOD, "must begin with 00 00"),
        (GOOD[:9], "the shape must have 8 bytes, got 5"),
        (GOOD[:-1], "elements must have 6 bytes, got 5"),
        (GOOD + b"\0", "must end after its elements"),
        (b"\0\0\x08\x02" + b"\xff" * 8, "announces 18446744065119617025"),
        (b"\0\0\x08\xff" + b"\0\0\0\x01" * 3, "the shape must have 1020 bytes, got 12"),
        (gzip.compress(GOOD)[:-9], "gzip stream must be complete"),
        (gzip.compress(GOOD)[:-8] + b"\0" * 8, "gzip stream must be complete"),
        (b"\x1f\x8bnothing", "gzip stream must be complete"),
    ],
)
def test_the_error_names_an_invalid_idx_file(tmp_path, data, rule):
    path = write(tmp_path, data)
    with pytest.raises(FormatError, match=rule) as caught:
        idx.read(path)
    assert str(path) in str(caught.value)


def test_idx_reads_at_most_max_bytes(tmp_path):
    path = write(tmp_path, GOOD)
    assert idx.read(path, max_bytes=6).shape == (2, 3)
    with pytest.raises(FormatError, match="at most 5 bytes here"):
        idx.read(path, max_bytes=5)
    assert idx.read(write(tmp_path, idx_bytes(np.zeros(0, "u1"), 8)), max_bytes=0).shape == (0,)
    for limit in (-1, True, "1"):
        with pytest.raises(FormatError, match="max_bytes must be an int of at least 0"):
            idx.read(path, max_bytes=limit)


def test_a_small_idx_file_that_claims_a_large_size_uses_little_memory(tmp_path):
    # The header claims 1 GiB but no data follows. Reading must fail before allocating that memory.
    import tracemalloc

    path = write(tmp_path, b"\0\0\x08\x01" + struct.pack(">I", 1 << 30))
    tracemalloc.start()
    with pytest.raises(FormatError, match="got 0 before the end"):
        idx.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("axes", [[1] * 65, [1] * 255, [0] + [2**32 - 1] * 3])
def test_an_idx_file_with_axes_that_numpy_does_not_support_is_refused(tmp_path, axes):
    size = 0 if 0 in axes else 1
    data = bytes([0, 0, 8, len(axes)]) + struct.pack(f">{len(axes)}I", *axes) + bytes(size)
    with pytest.raises(FormatError, match=rf"axes that an array can have, got {len(axes)} axes"):
        idx.read(write(tmp_path, data))
