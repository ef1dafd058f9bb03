"""`save` checks the rules of the reader first, so it never writes what `load` would refuse."""

from __future__ import annotations

import numpy as np
import pytest

from opwright import Program, load, load_tensors, save
from opwright.describe import wire as messages
from opwright.disk import write_file
from opwright.errors import AttributeValueError, FormatError, ProgramError
from opwright.program.files import safetensors_file
from opwright.program.files.safetensors_file import encode


def with_variable(name="v", shape=(2,), dtype="float32"):
    program = Program()
    program.global_block().create_var(name, shape, dtype, persistable=True)
    return program


def check_refused(folder, program, scope, message, error=FormatError, **options):
    """Check that saving raises before it creates a folder."""
    with pytest.raises(error, match=message):
        save(folder / "new", program, scope, **options)
    assert not (folder / "new").exists()


def test_a_parameter_named_like_the_metadata_is_refused(tmp_path, model):
    scope = model.ArrayScope(__metadata__=np.zeros(2, np.float32))
    message = "save: .*got a tensor named '__metadata__', which the format reserves; rename it"
    check_refused(tmp_path, with_variable("__metadata__"), scope, message)


def test_a_header_beyond_the_limit_is_refused(tmp_path, model, monkeypatch):
    monkeypatch.setattr(safetensors_file, "_MAX_HEADER_BYTES", 100)
    check_refused(
        tmp_path, model.build(), model.filled(1), r"save: .*a header of 3\d\d bytes, of at"
    )


def test_a_program_beyond_the_limit_is_refused(tmp_path, model, monkeypatch):
    monkeypatch.setattr(messages, "MAX_PROGRAM_BYTES", 100)
    check_refused(tmp_path, model.build(), model.filled(1), "program: must have at most 9. bytes")


def test_blocks_that_are_nested_too_deeply_are_refused(tmp_path, model):
    program = model.build()
    for depth in range(70):
        program.add_block(depth)
    check_refused(tmp_path, program, model.filled(1), "program: blocks nest at most 64 deep")


def test_a_dimension_that_does_not_fit_in_int64_is_refused(tmp_path, model):
    program = model.build()
    program.global_block().create_var("far", [2**63])
    check_refused(tmp_path, program, model.filled(1), "program: cannot be written, got ")


def test_a_name_with_an_unpaired_surrogate_is_refused(tmp_path, model):
    program = model.build()
    with pytest.raises(ProgramError, match=r"a name must be .* surrogates, got '\\ud800'; choose"):
        program.global_block().create_var("\ud800")
    program.global_block().rename_var("count", "\ud800")
    scope = model.filled(1)
    scope.vars["\ud800"] = scope.vars["count"]
    check_refused(tmp_path, program, scope, "program: cannot be written, got ")
    with pytest.raises(FormatError, match=r"a tensor named '\\ud800', which is not text"):
        encode({"\ud800": np.zeros(1)}, {})


def test_bools_with_bytes_other_than_0_and_1_are_refused(tmp_path, model):
    array = np.array([2, 1], np.uint8).view(bool)
    message = "save: .*got a byte 2 in 'v', of bools, which must be 0 or 1"
    check_refused(tmp_path, with_variable(dtype="bool"), model.ArrayScope(v=array), message)


ODD_NAMES = ["a\0b", "\0", "__metadata__", "größe", "\U00010000", "a" * 100_000, " ", "../x"]
ODD_NAMES += ['"', "\\", "\n", "opwright.crc32", "\u202e", "\x1b[31m", "{}", "1"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_a_name_is_refused_or_survives_a_round_trip(tmp_path, model, name):
    array = np.array([1, 2], np.float32)
    try:
        save(tmp_path, with_variable(name), model.ArrayScope(**{name: array}))
    except FormatError as error:
        assert name == "__metadata__", error  # noqa: PT017 - any other error fails the test
        return
    scope = model.ArrayScope()
    load(tmp_path, scope)
    np.testing.assert_array_equal(scope.arrays()[name], array)


def test_notes_that_are_nested_too_deeply_are_refused(tmp_path, model):
    notes: dict[str, object] = {}
    for _ in range(63):
        notes = {"in": notes}
    save(tmp_path / "deep", model.build(), model.filled(1), notes=notes)
    assert load(tmp_path / "deep", model.filled(0)).notes == notes
    message, error = "save: notes must nest at most 64 deep, got more", AttributeValueError
    notes = {"in": notes}
    check_refused(tmp_path, model.build(), model.filled(1), message, error, notes=notes)


def test_a_refused_save_leaves_the_previous_save_unchanged(tmp_path, model):
    save(tmp_path, model.build(), model.filled(7), fetch=["out"])
    scope = model.ArrayScope(__metadata__=np.zeros(2, np.float32))
    with pytest.raises(FormatError, match="reserves"):
        save(tmp_path, with_variable("__metadata__"), scope)
    assert model.load_value(tmp_path) == (3, 7)
    assert [path.name for path in (tmp_path / "generations").iterdir()] == ["00000001"]


def test_a_file_with_bool_bytes_other_than_0_and_1_is_refused(tmp_path):
    write_file(tmp_path / "a", encode({"mask": np.array([0, 1], np.uint8).view(bool)}, {}))
    with (tmp_path / "a").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(FormatError, match="a: .*got a byte 255 in 'mask', of bools, which must"):
        load_tensors(tmp_path / "a")
