"""Saved values are reloaded; mismatches raise before anything changes."""

from __future__ import annotations

import numpy as np
import pytest

from opwright import Program, load, save
from opwright.errors import ProgramError, VariableNotFoundError


def test_program_and_arrays_survive_a_round_trip(tmp_path, model):
    program, scope = model.build(), model.filled(7)
    save(
        tmp_path / "made" / "folder", program, scope, fetch=["out", program.global_block().var("h")]
    )
    target = model.ArrayScope()
    loaded = load(tmp_path / "made" / "folder", target)
    assert str(loaded.program) == str(program)
    assert loaded.program.seed == 4
    assert loaded.program_feeds == ("x",)
    assert [fetch.name for fetch in loaded.fetches] == ["out", "h"]
    assert list(target.arrays()) == ["w", "count", "@step"]
    for name, array in scope.arrays().items():
        found = target.arrays()[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)


def test_the_folder_contains_two_files_that_other_tools_can_read(tmp_path, model):
    from safetensors.numpy import load_file

    save(tmp_path, model.build(), model.filled(7))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["generations", "latest", "params.safetensors", "program.pb"]
    assert load_file(tmp_path / "params.safetensors")["w"].shape == (4, 3)


DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_every_dtype_and_shape_survives_a_round_trip(tmp_path, model, dtype, shape):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    program = Program()
    program.global_block().create_var("state", shape, dtype, persistable=True)
    array = np.random.default_rng(1).integers(0, 2, shape).astype(numpy_dtype)
    save(tmp_path, program, model.ArrayScope(state=array))
    target = model.ArrayScope()
    load(tmp_path, target)
    assert target.arrays()["state"].dtype == numpy_dtype
    np.testing.assert_array_equal(target.arrays()["state"], array)


def test_arrays_of_any_layout_are_saved_by_value(tmp_path, model):
    program = Program()
    program.global_block().create_var("state", [3, 2], persistable=True)
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    save(tmp_path, program, model.ArrayScope(state=array))
    load(tmp_path, target := model.ArrayScope())
    np.testing.assert_array_equal(target.arrays()["state"], array)


def test_saving_again_replaces_both_files(tmp_path, model):
    save(tmp_path, model.build(), model.filled(1))
    save(tmp_path, model.build(width=5), model.filled(2, width=5))
    load(tmp_path, target := model.ArrayScope())
    np.testing.assert_array_equal(target.arrays()["w"], np.full((4, 5), 2, np.float32))
    assert (tmp_path / "program.pb").samefile(tmp_path / "generations/00000002/program.pb")


def test_save_keeps_other_files_in_the_folder(tmp_path, model):
    (tmp_path / "notes.txt").write_text("mine")
    save(tmp_path, model.build(), model.filled(1))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_saving_an_unset_variable_raises_and_does_not_write_a_file(tmp_path, model):
    scope = model.filled(1)
    del scope.vars["w"]
    with pytest.raises(ProgramError, match="got none for 'w'; run the startup program"):
        save(tmp_path / "folder", model.build(), scope)
    assert not (tmp_path / "folder").exists()


def test_the_error_names_a_variable_with_a_different_shape_in_the_scope(tmp_path, model):
    with pytest.raises(ProgramError, match=r"match Parameter\('w', .*, got float32\[4, 5\]"):
        save(tmp_path, model.build(), model.filled(1, width=5))


def test_a_scope_without_a_step_can_be_saved(tmp_path, model):
    scope = model.filled(1)
    del scope.vars["@step"]
    save(tmp_path, model.build(), scope)
    load(tmp_path, target := model.ArrayScope())
    np.testing.assert_array_equal(target.arrays()["@step"], [0])


def test_a_fetch_that_is_not_a_variable_is_refused(tmp_path, model):
    with pytest.raises(VariableNotFoundError, match="save: fetch: no such variable, got 'ouut'"):
        save(tmp_path, model.build(), model.filled(1), fetch="ouut")


def test_inferred_shapes_are_known_after_loading(tmp_path, model):
    program = Program()
    program.global_block().create_parameter("w", [None, 3])
    program.global_block().create_parameter("v")
    arrays = {"w": np.zeros((2, 3), np.float32), "v": np.zeros(4, np.float32)}
    save(tmp_path, program, model.ArrayScope(**arrays))
    block = load(tmp_path, model.ArrayScope()).program.global_block()
    assert (block.var("w").shape, block.var("v").shape) == ((2, 3), (4,))


def test_a_scope_of_the_runtime_survives_a_round_trip(tmp_path, model):
    from opwright import Scope, scope_guard

    with scope_guard(Scope()) as scope:
        for name, array in model.filled(7).arrays().items():
            scope.var(name).set(array)
        save(tmp_path, model.build())
    with scope_guard(Scope()) as default:
        target = load(tmp_path).scope
        assert default.names() == []
    for name, array in model.filled(7).arrays().items():
        np.testing.assert_array_equal(target.find_var(name).numpy(), array)
