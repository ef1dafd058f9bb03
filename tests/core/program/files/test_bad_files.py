"""Files that are truncated, foreign, oversized, damaged, or from another program are refused.

These tests save only a standalone pair of files, without a manifest; test_generations.py tests the
manifest of a generation.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from opwright import load, load_program, save
from opwright.disk import write_file
from opwright.errors import (
    AttributeTypeError,
    FileMissingError,
    FormatError,
    OperatorNotFoundError,
    OpwrightError,
)
from opwright.program.files import opening
from opwright.program.files.manifest import encode_params, mark_of
from opwright.program.serialize import program_to_bytes


@pytest.fixture
def folder(tmp_path, model):
    model.save_pair(tmp_path, model.build(), model.filled(7), fetch=["out"])
    return tmp_path


def check_refused(folder, model, error, message):
    """Check that loading raises and leaves the scope unchanged."""
    scope = model.filled(1)
    with pytest.raises(error, match=message):
        load(folder, scope)
    np.testing.assert_array_equal(scope.arrays()["w"], np.ones((4, 3)))
    assert len(scope.vars) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("program.pb", "that opwright.save has written.*got a folder without program.pb"),
        ("params.safetensors", "must be next to the program .* got no such file; save both again"),
    ],
)
def test_the_error_names_a_missing_file(folder, model, name, message):
    (folder / name).unlink()
    check_refused(folder, model, FileMissingError, message)


def test_the_error_for_a_missing_folder_names_its_expected_contents(folder, model):
    absent = folder / "absent"
    message = f"^{absent}: must be a folder .*program.pb and params.safetensors in it, got no such"
    check_refused(absent, model, FileMissingError, message)
    check_refused(
        folder / "program.pb", model, FileMissingError, "program.pb: .*got a file; check the path$"
    )
    with pytest.raises(FileMissingError, match="got no such folder; check the path, which begins"):
        load_program("absent")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda p, s: save(p, "folder", s),
            r"save: path .* Program\(.*the folder comes first: save\(folder, ",
        ),
        (lambda p, s: save("folder", s, p), "save: program must be a Program, got <.*; write save"),
        (
            lambda p, s: save("folder", SimpleNamespace(program=p, scope=s)),
            r"save: program .*; of a model: model.save\(folder\), or model.export\(folder, \[out",
        ),
        (
            lambda p, s: save("folder", p, "out"),
            "save: scope must be a Scope, got 'out'; write",
        ),
        (lambda p, s: load(s, "folder"), "load: path must be a str or a path, got <"),
        (lambda p, s: load_program(p), "load_program: path must be a str or a path, got Program"),
    ],
)
def test_the_error_for_swapped_arguments_suggests_swapping_them(
    model, monkeypatch, tmp_path, call, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AttributeTypeError, match=message):
        call(model.build(), model.filled(1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [("program.pb", "program: "), ("params.safetensors", "truncated, or not a safetensors file")],
)
def test_every_truncation_is_detected(folder, model, name, message):
    data = (folder / name).read_bytes()
    for length in [0, 1, 7, 8, 9, *range(10, len(data), 13), len(data) - 1]:
        (folder / name).write_bytes(data[:length])
        check_refused(folder, model, FormatError, message)


@pytest.mark.parametrize("name", ["program.pb", "params.safetensors"])
def test_every_flipped_bit_is_detected(folder, model, name):
    data = (folder / name).read_bytes()
    expected = load(folder, model.ArrayScope())
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        (folder / name).write_bytes(flipped)
        scope = model.filled(1)
        try:
            loaded = load(folder, scope)
        except OpwrightError:
            np.testing.assert_array_equal(scope.arrays()["w"], np.ones((4, 3)))
        else:  # the bit is in padding, or changes only the spelling of the header
            assert str(loaded.program) == str(expected.program)
            np.testing.assert_array_equal(scope.arrays()["w"], np.full((4, 3), 7))


@pytest.mark.parametrize("junk", [b"PK\3\4 a zip file" * 9, b"\0" * 200, b"\xff" * 200])
@pytest.mark.parametrize("name", ["program.pb", "params.safetensors"])
def test_foreign_files_are_refused(folder, model, name, junk):
    (folder / name).write_bytes(junk)
    check_refused(folder, model, FormatError, "not a program of opwright|not a safetensors file")


def test_parameters_that_another_tool_has_rewritten_are_refused(folder, model):
    path = folder / "params.safetensors"
    save_file(load_file(path), path)
    check_refused(
        folder, model, FormatError, "not written by opwright.save, got no checksum of its"
    )


def test_parameters_from_another_program_are_refused(folder, model):
    other = folder / "other"
    other.mkdir()
    model.save_pair(other, model.build(width=5), model.filled(7, width=5))
    (other / "params.safetensors").replace(folder / "params.safetensors")
    check_refused(folder, model, FormatError, "got parameters of another program")


def rewrite(folder, **changes):
    """Rewrite the parameters with some arrays changed; None omits an array."""
    path = folder / "params.safetensors"
    arrays = {**load_file(path), **changes}
    kept = {name: array for name, array in arrays.items() if array is not None}
    path.unlink()
    write_file(path, encode_params(kept, mark_of(kept, (folder / "program.pb").read_bytes())))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"w": None}, "'w' is missing"),
        ({"w": None, "count": None}, "'w' is missing; 'count' is missing"),
        ({"v": np.zeros(2)}, "'v' is not a variable of the program"),
        ({"w": np.zeros((4, 2), np.float32)}, r"'w' must be float32\[4, 3\], got float32\[4, 2\]"),
        ({"w": np.zeros((12,), np.float32)}, r"'w' must be float32\[4, 3\], got float32\[12\]"),
        ({"w": np.zeros((4, 3))}, r"'w' must be float32\[4, 3\], got float64\[4, 3\]"),
        ({f"v{i}": np.zeros(1) for i in range(9)}, "; and 4 more"),
    ],
)
def test_the_error_names_tensors_that_do_not_match(folder, model, changes, message):
    rewrite(folder, **changes)
    check_refused(folder, model, FormatError, f"does not fit the program: .*{message}")


def test_an_oversized_program_is_not_read(folder, model, monkeypatch):
    size = (folder / "program.pb").stat().st_size
    monkeypatch.setattr(opening, "MAX_PROGRAM_BYTES", size - 1)
    check_refused(folder, model, FormatError, f"at most {size - 1} bytes, got {size}")


def test_an_oversized_header_is_not_read(folder, model):
    path = folder / "params.safetensors"
    with path.open("r+b") as file:
        file.write((33 << 20).to_bytes(8, "little"))
        file.truncate(40 << 20)
    check_refused(folder, model, FormatError, "a header of 34603008 bytes, of at most 33554432")


def test_a_feed_or_fetch_that_is_not_a_variable_is_refused(folder, model):
    data = program_to_bytes(model.build(), fetches=["ghost"])
    (folder / "program.pb").write_bytes(data)
    check_refused(folder, model, FormatError, "a feed or fetch must be a variable, got 'ghost'")


def test_the_error_for_an_unknown_operator_names_the_package(folder, model, context):
    del context.ops._registered["dropout"], context.ops._entries["dropout"]
    check_refused(folder, model, OperatorNotFoundError, "pip install 'opwright-std'")
