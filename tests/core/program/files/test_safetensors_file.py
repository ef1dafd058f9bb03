"""The safetensors reader accepts files of the safetensors package, and refuses invalid files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from opwright.disk import open_regular, write_file
from opwright.errors import FormatError
from opwright.program.files.safetensors_file import encode, read_array, read_header

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]


def read(path):
    """Return the metadata and the arrays of a file."""
    with open_regular(path) as handle:
        metadata, tensors = read_header(path, handle)
        found = {name: read_array(path, handle, name, tensors[name]) for name in tensors}
        return metadata, found


def check_equal(found, arrays):
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


@pytest.fixture
def arrays():
    draws = np.random.default_rng(3)
    shapes = [(), (0,), (3, 0, 2), (1,), (7,), (2, 3)]
    return {
        f"{dtype} größe {shape}": draws.integers(0, 2, shape).astype(dtype)
        for dtype in DTYPES
        for shape in shapes
    }


def test_opwright_and_the_safetensors_package_read_each_others_files(tmp_path, arrays):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    save_file(arrays, theirs, {"a": "ü"})
    metadata, found = read(theirs)
    assert metadata == {"a": "ü"}
    check_equal(found, arrays)
    write_file(ours, encode(arrays, {"a": "ü"}))
    check_equal(load_file(ours), arrays)
    with safe_open(ours, "np") as file:
        assert file.metadata() == {"a": "ü"}


def test_arrays_of_any_layout_are_written_by_value(tmp_path):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    arrays = {"t": array.T, "s": array[:, ::2], "b": array.astype(">f4")}
    write_file(tmp_path / "a", encode(arrays, {}))
    found = load_file(tmp_path / "a")
    for name, wanted in arrays.items():
        np.testing.assert_array_equal(found[name], wanted)


def file_of(path: Path, header, data=b"\0" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "a header that is not JSON"),
        (b"\xff\xfe", "a header that is not JSON"),
        (b"[" * 100_000, "a header that is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a header that is not JSON"),
        (b'{"a": {}, "a": {}}', "a name occurs twice"),
        (b"[]", "a header that is not an object"),
        ({"__metadata__": []}, "metadata that is not a mapping of text"),
        ({"__metadata__": {"a": 1}}, "metadata that is not a mapping of text"),
        ({"w": []}, "'w' whose keys are not dtype, shape and data_offsets"),
        ({"w": {"dtype": "F32"}}, "'w' whose keys are not dtype, shape and data_offsets"),
        ({"w": entry(extra=1)}, "'w' whose keys are not dtype, shape and data_offsets"),
        ({"w": entry("F8_E8M0")}, "'w' of dtype F8_E8M0, which opwright does not support"),
        ({"w": entry([])}, r"'w' of dtype \[\], which opwright does not support"),
        ({"w": entry(shape=(-2,))}, r"'w' with shape \[-2\]"),
        ({"w": entry(shape=(2.0,))}, r"'w' with shape \[2.0\]"),
        ({"w": entry(shape=(True, 2))}, "'w' with shape"),
        ({"w": entry(shape=(2**63,))}, "'w' with shape"),
        ({"w": entry(shape=(1,) * 65)}, "'w' with shape"),
        ({"w": entry(offsets=(0,))}, "'w' with data_offsets"),
        ({"w": entry(offsets=(8, 0))}, r"'w' of shape \[2\] in -8 bytes"),
        ({"w": entry(shape=(2**40, 2**40))}, r"'w' of shape .* in 8 bytes"),
        ({"w": entry(offsets=(8, 16))}, "a tensor at byte"),
        ({"w": entry(), "v": entry()}, "a tensor at byte"),
        ({"w": entry(shape=(1,), offsets=(0, 4))}, "bytes, but its tensors end at"),
        ({"w": entry(offsets=(0, 8)), "v": entry(offsets=(8, 16))}, "its tensors end at"),
        ({"w": entry(shape=(2**62, 0, 2**62), offsets=(0, 0)), "v": entry()}, "'?w|shape"),
        ({}, "bytes, but its tensors end at"),
    ],
)
def test_an_inconsistent_header_is_refused(tmp_path, header, message):
    path = file_of(tmp_path / "file", header)
    with pytest.raises(FormatError, match=message):
        read(path)


def test_a_file_that_is_truncated_while_it_is_read_raises(tmp_path):
    path = tmp_path / "file"
    write_file(path, encode({"w": np.zeros(1000)}, {}))
    with open_regular(path) as handle:
        _, tensors = read_header(path, handle)
        with path.open("r+b") as file:
            file.truncate(500)
        with pytest.raises(FormatError, match="truncated, got 500 bytes instead of"):
            read_array(path, handle, "w", tensors["w"])
