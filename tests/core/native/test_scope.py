"""Tests scopes, variables, tensors, and plans bound to them."""

from __future__ import annotations

import numpy as np
import pytest
from plan_maker import PlanMaker, compiled, f32

from opwright import _runtime as rt
from opwright.errors import DtypeError, ProgramError, ShapeError, VariableNotFoundError


def test_find_var_searches_parent_scopes_but_var_creates_a_variable_in_the_current_scope():
    root = rt.Scope()
    child = root.new_scope()
    root.var("w").set(f32(1))
    assert child.find_var("w") is root.var("w")
    assert child.find_var("nothing") is None
    assert child.var("w") is not root.var("w")
    assert (child.names(), root.names(), child.parent) == (["w"], ["w"], root)


def test_structure_version_is_shared_by_the_whole_tree():
    root = rt.Scope()
    child = root.new_scope()
    versions = [child.structure_version]
    for change in (
        lambda: root.var("w"),
        lambda: root.var("w").set(f32(1)),
        lambda: root.var("w").set(f32(1, 2)),
        lambda: root.erase("w"),
    ):
        change()
        versions.append(child.structure_version)
    assert versions == sorted(set(versions))
    assert root.structure_version == versions[-1]
    root.var("v").set(f32(1))
    before = root.structure_version
    root.var("v").set(f32(2))
    assert root.structure_version == before  # written in place


def test_set_keeps_the_dtype_and_replaces_a_mismatched_array():
    variable = rt.Scope().var("w")
    assert (variable.is_set, variable.shape, variable.dtype, variable.device) == (
        False, None, None, None,
    )  # fmt: skip
    variable.set(np.arange(6, dtype="int16").reshape(2, 3)[:, ::-1])
    assert (variable.is_set, variable.shape, variable.dtype, variable.device) == (
        True, (2, 3), "int16", "cpu",
    )  # fmt: skip
    np.testing.assert_array_equal(variable.numpy(), [[2, 1, 0], [5, 4, 3]])
    address, version = variable.tensor().data_ptr, variable.version
    variable.set(np.zeros((2, 3), ">i2"))
    assert variable.tensor().data_ptr == address
    assert variable.version == version + 1
    variable.set([1.5])
    assert (variable.shape, variable.dtype) == ((1,), "float64")


def test_numpy_and_asarray_return_copies():
    variable = rt.Scope().var("w")
    variable.set(f32(1, 2))
    variable.numpy()[0] = 9
    np.asarray(variable)[0] = 9
    np.testing.assert_array_equal(variable.numpy(), [1, 2])
    assert np.asarray(variable, dtype="float64").dtype == np.float64


def test_dlpack_shares_the_memory_and_keeps_it_alive():
    variable = rt.Scope().var("w")
    variable.set(f32(1, 2, 3))
    shared = np.from_dlpack(variable)
    assert shared.ctypes.data == variable.tensor().data_ptr
    del variable
    np.testing.assert_array_equal(shared, [1, 2, 3])
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # supports copy=True
        copy = np.from_dlpack(rt.Tensor.from_numpy(f32(1, 2)), copy=True)
        np.testing.assert_array_equal(copy, [1, 2])
    assert rt.Tensor.from_numpy(f32(1)).__dlpack_device__() == (1, 0)
    rt.Tensor.from_numpy(f32(1)).__dlpack__()  # an unconsumed capsule


def test_reading_an_unset_variable_or_erasing_an_unknown_variable_raises():
    scope = rt.Scope()
    with pytest.raises(VariableNotFoundError, match="w: the variable must be set"):
        scope.var("w").numpy()
    with pytest.raises(VariableNotFoundError, match="nothing: erase must name"):
        scope.erase("nothing")


def test_a_dtype_without_a_name_is_refused():
    for bad in (np.array(["a"]), np.array([1j]), np.array([object()])):
        with pytest.raises(DtypeError, match="w: a tensor holds numbers or bools, got dtype"):
            rt.Scope().var("w").set(bad)


def update_plan(name="w", shape=(4,)):
    make = PlanMaker("update")
    ext = make.builder.external(rt.PERSISTABLE, name)
    code = 2 | 32 << 8 | 1 << 16
    param = make.builder.value(code, shape, rt.EXTERNAL, ext)
    param_out = make.builder.value(code, shape, rt.EXTERNAL, ext)
    make.python(
        lambda p, x, out: np.add(p, x, out=out), [param, make.feed("x", shape)], [param_out]
    )
    make.builder.writes([name])
    make.builder.fetch(param_out)
    return make.build()


def test_each_run_increments_the_version_of_the_variable_shared_by_param_and_param_out():
    scope = rt.Scope()
    scope.var("w").set(f32(0, 0, 0, 0))
    call = compiled(update_plan(), "x", scope=scope)
    version = scope.var("w").version
    for i in range(3):
        (fetched,) = call(x=f32(1, 1, 1, 1))
        np.testing.assert_array_equal(fetched, i + 1)
    np.testing.assert_array_equal(scope.var("w").numpy(), 3)
    assert scope.var("w").version == version + 3


def test_a_replaced_variable_is_rebound_and_a_new_shape_causes_a_new_lowering():
    scope = rt.Scope()
    scope.var("w").set(f32(0, 0, 0, 0))
    asked = []

    def resolve(arrays):
        asked.append(scope.var("w").shape)
        return update_plan(shape=scope.var("w").shape)

    call = rt.CompiledNetwork(scope, ["x"], resolve)
    call(x=f32(1, 1, 1, 1))
    scope.erase("w")
    scope.var("w").set(f32(5, 5, 5, 5))
    np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], 6)
    assert asked == [(4,)]
    scope.var("w").set(f32(1, 2))
    np.testing.assert_array_equal(call(x=f32(1, 1))[0], [2, 3])
    assert asked == [(4,), (2,)]


def test_the_error_names_a_persistable_that_is_missing_or_has_a_wrong_shape():
    plan = update_plan()
    scope = rt.Scope()
    with pytest.raises(VariableNotFoundError, match="w: the variable must be set before plan 'up"):
        compiled(plan, "x", scope=scope)(x=f32(1, 1, 1, 1))
    scope.var("w").set(f32(1, 2))
    with pytest.raises(ShapeError, match=r"w: .*float32\(4,\) on cpu, got float32\(2,\) on cpu"):
        compiled(plan, "x", scope=scope)(x=f32(1, 1, 1, 1))


def test_a_created_variable_is_zero_in_the_scope_of_the_run_and_keeps_a_matching_value():
    make = PlanMaker()
    step = make.persistable("@step", (1,), "int64", create=True)
    make.python(lambda out: np.add(out, 1, out=out), [], [step])
    make.builder.writes(["@step"])
    plan = make.build()
    root = rt.Scope()
    child = root.new_scope()
    plan.run(child)
    plan.run(child)
    assert root.names() == []
    assert child.var("@step").numpy() == [2]
    child.var("@step").set(f32(1, 2))
    plan.run(child)
    assert child.var("@step").numpy() == [1]
    with pytest.raises(ProgramError, match="got no scope"):
        plan.run()


def test_a_bound_plan_keeps_its_scope_and_tensors_alive():
    plan = update_plan()
    scope = rt.Scope()
    scope.var("w").set(f32(0, 0, 0, 0))
    call = compiled(plan, "x", scope=scope)
    tensor = scope.var("w").tensor()
    del scope
    call(x=f32(1, 1, 1, 1))
    np.testing.assert_array_equal(tensor.numpy(), 1)
