"""The readers: CIFAR, CSV, text and image folders, valid and damaged."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FormatError,
    MissingRequirementError,
)
from opwright_nn.datasets import cifar, csv, image_folder, text

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (3, 3072), np.uint8)
CSV = 'length,width,kind\n1,2.5,"rose, red"\n\n-3,4e2,tulip\n0,1,"rose, red"\n'


def write(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def records(*labels):
    return b"".join(bytes(label) + image.tobytes() for label, image in zip(labels, PIXELS))


# -- CIFAR -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "labels", "expected"),
    [
        ("cifar10", ([9], [0], [3]), [9, 0, 3]),
        ("cifar100", ([19, 99], [0, 1], [2, 3]), [99, 1, 3]),
        ("cifar100-coarse", ([19, 99], [0, 1], [2, 3]), [19, 0, 2]),
    ],
)
def test_cifar_records_are_read(tmp_path, kind, labels, expected):
    path = write(tmp_path, records(*labels))
    images, classes = cifar.read(path, kind)
    assert (images.shape, images.dtype, classes.dtype) == ((3, 3, 32, 32), np.float32, np.int64)
    np.testing.assert_array_equal(images, PIXELS.reshape(3, 3, 32, 32) / np.float32(255))
    np.testing.assert_array_equal(classes, np.array(expected)[:, None])
    twice = cifar.read([path, str(path)], kind)
    np.testing.assert_array_equal(twice.labels, np.array(expected * 2)[:, None])


@pytest.mark.parametrize(
    ("data", "options", "rule"),
    [
        (b"", {}, "records of 3073 bytes, got 0 bytes"),
        (records([1], [2])[:-1], {}, r"got 6145 bytes \(3072 after the last whole record\)"),
        (records([1], [10]), {}, r"in 0\.\.9, got 10 in byte 0 of record 1"),
        (records([1, 100]), {"kind": "cifar100"}, r"in 0\.\.99, got 100 in byte 1 of record 0"),
        (records([20, 1]), {"kind": "cifar100"}, r"in 0\.\.19, got 20 in byte 0 of record 0"),
        (records([1]), {"max_bytes": 3072}, "at most 3072 bytes here, got more"),
    ],
)
def test_a_damaged_cifar_file_is_refused(tmp_path, data, options, rule):
    path = write(tmp_path, data)
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}: .*{rule}"):
        cifar.read(path, **options)


# -- CSV ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["kind", 2, -1])
def test_csv_files_with_numbers_and_classes_are_read(tmp_path, label):
    table = csv.read(write(tmp_path, CSV), label)
    features, targets = table
    assert (features.dtype, targets.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(features, [[1, 2.5], [-3, 400], [0, 1]])
    np.testing.assert_array_equal(targets, [[0], [1], [0]])
    assert (table.columns, table.classes) == (("length", "width"), ("rose, red", "tulip"))


def test_csv_options_for_other_formats_are_supported(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbf10;1.5\r\n9;2\r\n")
    table = csv.read(path, 0, header=False, delimiter=";")
    assert (table.columns, table.classes) == (("1",), ("9", "10"))
    np.testing.assert_array_equal(table.targets, [[1], [0]])
    numbers = csv.read(path, 0, header=False, delimiter=";", target="numbers")
    assert (numbers.targets.dtype, numbers.classes) == (np.float32, ())
    np.testing.assert_array_equal(numbers.targets, [[10], [9]])
    given = csv.read(path, 0, header=False, delimiter=";", classes=["10", "8", "9"])
    np.testing.assert_array_equal(given.targets, [[0], [2]])


@pytest.mark.parametrize(
    ("data", "options", "rule"),
    [
        ("", {}, "a header and a row, got none"),
        ("a,b,kind\n", {}, "a header and a row, got none"),
        (CSV + "1,2\n", {}, "have 3 values, like the first row, got 2 in line 6"),
        (CSV + "1,two,x\n", {}, "got 'two' in line 6, column 'width'"),
        (CSV + "1,nan,x\n", {}, "got 'nan' in line 6"),
        (CSV + "1,1e40,x\n", {}, "got '1e40' in line 6"),
        (CSV + "1_0,1,x\n", {}, "got '1_0' in line 6"),
        (CSV + "1,,x\n", {}, "got '' in line 6"),
        (CSV + '1,2,"x\n', {}, "quoted values of a CSV file must be complete, got .* in line 6"),
        (CSV, {"target": "numbers"}, "got 'rose, red' in line 2, column 'kind'"),
        (CSV, {"classes": ["rose, red", "tulips"]}, "'tulip' in line 4; did you mean 'tulips'"),
        (CSV, {"max_bytes": 10}, "at most 10 bytes"),
        (b"a,kind\n1,\xff\n", {}, "encoding utf-8, got .*0xff in position 9"),
    ],
)
def test_a_damaged_csv_file_is_refused(tmp_path, data, options, rule):
    path = write(tmp_path, data)
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}: .*{rule}"):
        csv.read(path, "kind", **options)


# -- Text --------------------------------------------------------------------------------------


def test_lines_are_read(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbfone\r\n\n  two \xc3\xa4\rthree")
    assert text.read_lines(path) == ["one", "  two ä", "three"]
    assert text.read_lines(path, keep_empty=True) == ["one", "", "  two ä", "three"]
    assert text.read_lines(write(tmp_path, b"\xe4\n"), encoding="latin-1") == ["ä"]
    assert text.read_lines(write(tmp_path, b"")) == []


@pytest.mark.parametrize(
    ("data", "options", "rule"),
    [
        (b"a\n\xff", {}, "encoding utf-8, got .*0xff in position 2"),
        (b"a\nb\0", {}, "no zero bytes, got one in line 2"),
        (b"12345", {"max_bytes": 4}, "at most 4 bytes here"),
    ],
)
def test_damaged_text_is_refused(tmp_path, data, options, rule):
    path = write(tmp_path, data)
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}: .*{rule}"):
        text.read_lines(path, **options)


def test_docstrings_are_read_from_the_source_in_source_order(tmp_path, monkeypatch):
    source = '"""First."""\nclass A:\n    """Second."""\n    def f(self):\n        """Third."""\n'
    (tmp_path / "module_of_docs.py").write_text(source + 'async def g():\n    """Fourth."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert text.read_docstrings(["module_of_docs"]) == "First.\n\nSecond.\n\nThird.\n\nFourth."
    assert "module_of_docs" not in sys.modules
    whole = text.read_docstrings()
    assert len(whole) > 200_000
    assert "Command-line parsing library" in whole


@pytest.mark.parametrize("name", ["sys", "no_such_module_at_all", "no_such_package.module"])
def test_the_error_names_a_module_without_source(name):
    with pytest.raises(AttributeValueError, match=f"source installed, got '{name}'"):
        text.read_docstrings([name])


# -- Image folders -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    images = pytest.importorskip("PIL.Image")
    for name, number, value in (("dog", 1, 51), ("cat", 2, 102), ("cat", 1, 255)):
        (tmp_path / name).mkdir(exist_ok=True)
        picture = images.fromarray(np.full((4, 6, 3), (value, 0, 0), np.uint8))
        picture.save(tmp_path / name / f"{number}.png")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "cat" / ".DS_Store").write_bytes(b"x")
    return tmp_path


def test_the_classes_of_an_image_folder_are_sorted(folder):
    listing = image_folder.find(folder)
    assert [str(path.relative_to(folder)) for path in listing.paths] == [
        str(Path(name)) for name in ("cat/1.png", "cat/2.png", "dog/1.png")
    ]
    assert listing.classes == ("cat", "dog")
    images, labels = image_folder.read(folder, size=(4, 6))
    assert (images.shape, images.dtype) == ((3, 3, 4, 6), np.float32)
    np.testing.assert_array_equal(labels, [0, 0, 1])
    np.testing.assert_array_equal(images[:, 0, 0, 0], np.array([255, 102, 51], np.float32) / 255)
    assert not images[:, 1:].any()


def test_an_image_is_resized_and_converted_to_gray(folder):
    path = folder / "cat" / "1.png"
    assert image_folder.decode(path).shape == (3, 4, 6)
    assert image_folder.decode(path, 5).shape == (3, 5, 5)
    gray = image_folder.decode(path, (2, 3), grayscale=True)
    assert gray.shape == (1, 2, 3)
    np.testing.assert_allclose(gray, 76 / 255, rtol=1e-6)


def test_damaged_images_are_refused(folder):
    path = folder / "cat" / "1.png"
    images = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    images.fromarray(RANDOM.integers(0, 256, (40, 40, 3), np.uint8)).save(stream, "PNG")
    start = f"^{re.escape(str(path))}: "
    for data in (b"", b"no image", stream.getvalue()[:1000]):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=start + "an image must be complete"):
            image_folder.decode(path)
    path.write_bytes(stream.getvalue())
    with pytest.raises(FormatError, match=start + "an image may have at most 1599 pixels .* 40 × "):
        image_folder.decode(path, max_pixels=1599)
    with pytest.raises(FileNotFoundError):
        image_folder.decode(folder / "cat" / "7.png")


def test_a_folder_with_a_wrong_layout_is_refused(folder):
    stray = folder / "cat" / "notes.txt"
    stray.write_text("x")
    with pytest.raises(FormatError, match="must contain only images .* got 'notes.txt'; move"):
        image_folder.find(folder)
    stray.unlink()
    (folder / "empty").mkdir()
    with pytest.raises(FormatError, match="empty: a class must have at least one image"):
        image_folder.find(folder)
    with pytest.raises(FormatError, match="one folder for each class, got none"):
        image_folder.find(folder / "empty")


def test_without_pillow_the_error_names_the_package_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingRequirementError, match="run: pip install pillow"):
        image_folder.decode(folder / "cat" / "1.png")


# -- Arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda: cifar.read("x", "cifar-10"), AttributeValueError, "did you mean 'cifar10'"),
        (lambda: cifar.read([]), AttributeTypeError, "a list of at least one, got"),
        (lambda: cifar.read("x", kinds="cifar10"), AttributeTypeError, "did you mean 'kind'"),
        (lambda: csv.read("x", "a", delimeter=";"), AttributeTypeError, "mean 'delimiter'"),
        (lambda: csv.read("x", "a", delimiter=";;"), AttributeValueError, "one character"),
        (lambda: csv.read("x", "a", target="class"), AttributeValueError, "mean 'classes'"),
        (lambda: text.read_lines("x", encoding="utf-9"), AttributeValueError, "got 'utf-9'"),
        (lambda: text.read_docstrings("argparse"), AttributeTypeError, "a list of names"),
        (lambda: image_folder.read("x", None), AttributeTypeError, "size must be given"),
        (lambda: image_folder.decode("x", (0, 1)), AttributeValueError, "size must be"),
        (lambda: image_folder.decode("x", grayscal=True), AttributeTypeError, "'grayscale'"),
    ],
)
def test_the_error_names_a_wrong_argument(call, error, rule):
    with pytest.raises(error, match=rule):
        call()


@pytest.mark.parametrize(
    ("label", "rule"),
    [("kinds", "did you mean 'kind'"), (3, "in .-3, 2., got 3"), (-4, "got -4")],
)
def test_a_label_that_is_not_a_column_is_refused(tmp_path, label, rule):
    with pytest.raises(AttributeValueError, match=f"label must be .*{rule}"):
        csv.read(write(tmp_path, CSV), label)


def test_given_classes_are_checked(tmp_path):
    path = write(tmp_path, CSV)
    with pytest.raises(AttributeValueError, match="classes must be a list"):
        csv.read(path, "kind", classes="ab")
    with pytest.raises(AttributeValueError, match="classes must differ"):
        csv.read(path, "kind", classes=["a", "a"])
