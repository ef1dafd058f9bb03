"""Every kernel of every operator matches the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from case import Array, Case, is_float
from direct import call, infer
from one_operator import Target, build, definition_of, run_case
from table import (
    by_operator,
    every_dtype,
    first_cases,
    load_cases,
    over_cases,
    over_targets,
    sample_cases,
)

import opwright as ow
from opwright.errors import DtypeError
from opwright.kernel import Refuse
from opwright.op import DTYPES, OpDefinition


def compare(case: Case, outputs: Mapping[str, Sequence[Array]], expected: tuple[Any, ...]) -> None:
    for slot, wanted in zip(outputs, expected, strict=bool(expected)):
        if wanted is None:
            continue
        listed = wanted if isinstance(wanted, list) else [wanted]
        for got, number in zip(outputs[slot], listed, strict=True):
            where = f"{case}: {slot}"
            assert got.shape == np.shape(number), where
            if not is_float(got.dtype):
                np.testing.assert_array_equal(got, number, err_msg=where)
                continue
            relative, absolute = case.tolerance(got.dtype)
            # Expected values that are too large for the dtype become infinite.
            with np.errstate(over="ignore"):
                rounded = np.asarray(number, np.float64).astype(got.dtype).astype(np.float64)
            np.testing.assert_allclose(
                got.astype(np.float64), rounded, rtol=relative, atol=absolute, err_msg=where
            )


def is_finite(expected: tuple[Any, ...]) -> bool:
    listed = [part for item in expected for part in (item if isinstance(item, list) else [item])]
    return all(part is not None and bool(np.all(np.isfinite(part))) for part in listed)


def run_strictly(
    case: Case, arrays: Mapping[str, Sequence[Array]], target: Target, expected: tuple[Any, ...]
) -> Mapping[str, Sequence[Array]]:
    """Run a case; if its result is finite, no intermediate value may overflow or be undefined."""
    if not expected:  # without a reference, the result itself determines whether it is finite
        with np.errstate(all="ignore"):
            expected = tuple(run_case(case, arrays, target).values())
    with np.errstate(all="raise" if is_finite(expected) else "ignore", under="ignore"):
        return run_case(case, arrays, target)


@over_targets(every_dtype)
def test_kernel_matches_the_reference(case: Case, dtype: str, target: Target) -> None:
    arrays = case.make_inputs(dtype)
    expected = case.compute_expected(arrays)
    outputs = run_strictly(case, arrays, target, expected)
    compare(case, outputs, expected)
    definition = definition_of(case)
    attrs = definition.proto.fill_attrs(dict(case.attrs))
    counts = {slot: len(listed) for slot, listed in outputs.items()}
    for listed, metas in zip(
        outputs.values(), infer(definition, arrays, attrs, counts), strict=True
    ):
        for array, meta in zip(listed, metas, strict=True):
            assert array.dtype.name == meta.dtype
            assert len(array.shape) == len(meta.shape)
            assert all(b in (-1, a) for a, b in zip(array.shape, meta.shape, strict=True))


def call_eagerly(case: Case, arrays: Mapping[str, Sequence[Array]]) -> list[Array]:
    given = {slot: listed if case.is_list(slot) else listed[0] for slot, listed in arrays.items()}
    result = getattr(ow.ops, case.op)(**given, **case.attrs)
    return list(result) if isinstance(result, tuple) else [result]


def strided(array: Array) -> Array:
    """Return an equal array with a gap of one element after each element in memory."""
    if array.ndim == 0:
        return array
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


@over_cases([case for case in first_cases() if case.inputs])
def test_calls_on_arrays_agree_with_networks_for_any_strides(case: Case) -> None:
    arrays = case.make_inputs(case.dtypes[-1])
    spread = {slot: [strided(array) for array in listed] for slot, listed in arrays.items()}
    kept = {slot: [array.copy() for array in listed] for slot, listed in arrays.items()}
    with np.errstate(all="ignore"):
        compact, far_apart = call_eagerly(case, arrays), call_eagerly(case, spread)
        networks = run_case(case, arrays, Target("cpu", None))
    shown = [s.name for s in definition_of(case).proto.outputs if not s.intermediate]
    listed = [array for slot in shown for array in networks[slot]]
    for one, other, third in zip(compact, far_apart, listed, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)
    for slot, before in kept.items():
        for array, copy in zip(arrays[slot], before, strict=True):
            np.testing.assert_array_equal(array, copy, err_msg=f"{case}: {slot} was changed")


def gradient_inputs(
    case: Case, arrays: Mapping[str, Sequence[Array]], derived: OpDefinition
) -> dict[str, list[Array]]:
    """Return the inputs of a case's gradient operator: inputs, outputs, random gradients."""
    outputs = run_case(case, arrays, Target("cpu", None))
    rng = np.random.default_rng(0)
    made: dict[str, list[Array]] = {}
    for slot in derived.proto.inputs:
        forward = slot.name.removesuffix("_grad")
        if slot.name in arrays:
            made[slot.name] = list(arrays[slot.name])
        elif slot.name in outputs:
            made[slot.name] = outputs[slot.name]
        elif forward in outputs:
            made[slot.name] = [
                np.asarray(rng.standard_normal(a.shape)).astype(a.dtype) for a in outputs[forward]
            ]
    return made


def check_reuse(
    op_type: str, arrays: Mapping[str, Sequence[Array]], attrs: Mapping[str, Any], counts: Any
) -> None:
    """Check that in-place outputs equal separate outputs."""
    context = ow.current_context()
    definition = context.ops.get(op_type)
    for entry in context.kernels.entries(op_type):
        kernel = entry.load()
        if not isinstance(kernel, (FunctionType, type)):
            continue
        for output, source in entry.may_reuse:
            with np.errstate(all="ignore"):
                try:
                    apart = call(kernel, definition, arrays, attrs, counts)
                except Refuse:  # the kernel does not support an attribute value of this case
                    continue
                if [(a.shape, a.dtype) for a in arrays[source]] != [
                    (a.shape, a.dtype) for a in apart[output]
                ]:
                    continue
                shared = call(kernel, definition, arrays, attrs, counts, [(output, source)])
            for slot, listed in apart.items():
                for a, b in zip(listed, shared[slot], strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=f"{entry}: {output} on {source}")
        return  # one dtype of one kernel suffices, since all dtypes use the same function


SINGLE = by_operator(sample_cases(case for case in load_cases() if "float32" in case.dtypes))


@pytest.mark.parametrize("op_type", SINGLE)
def test_an_output_can_reuse_the_inputs_that_its_kernel_declares(op_type: str) -> None:
    for case in SINGLE[op_type]:
        check_reuse_of_both(case)


def check_reuse_of_both(case: Case) -> None:
    """Check an operator and its gradient."""
    arrays = case.make_inputs("float32")
    check_reuse(case.op, arrays, case.attrs, case.outputs)
    derived = ow.current_context().ops.find(f"{case.op}_grad")
    if derived is not None:
        with np.errstate(all="ignore"):
            given = gradient_inputs(case, arrays, derived)
        counts = {
            slot.name: len(given[slot.name[:-5]])
            for slot in derived.proto.outputs
            if slot.name[:-5] in given
        }
        counts = {slot.name: counts.get(slot.name, 0) for slot in derived.proto.outputs}
        check_reuse(derived.op_type, given, case.attrs, counts)


@over_cases(first_cases())
def test_the_error_names_an_input_of_a_wrong_dtype(case: Case) -> None:
    arrays = case.make_inputs(case.dtypes[-1])
    for slot in definition_of(case).proto.inputs:
        if slot.name not in arrays or not (slot.dtypes or slot.same_as):
            continue
        now = arrays[slot.name][0].dtype.name
        refused = [d for d in DTYPES if d not in {*slot.dtypes, now, "bfloat16"}]
        if not refused:
            continue
        wrong = [array.astype(refused[0]) for array in arrays[slot.name]]
        if slot.same_as == slot.name:  # only the others in the list are wrong
            wrong[0] = arrays[slot.name][0]
        with pytest.raises(DtypeError, match=rf"{case.op}: \w+ must"):
            build(case, {**arrays, slot.name: wrong})
