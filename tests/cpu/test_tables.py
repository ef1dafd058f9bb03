"""The hook's table and the libraries agree: what is named exists, and what exists is named."""

from __future__ import annotations

import pytest

import opwright as ow
from opwright import _runtime
from opwright.kernel import ANY
from opwright.op import DTYPES
from opwright.registry.native_kernel import NativeKernel
from opwright.registry.native_library import find_library_file

WIDENED = {"sum": {"bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"}}
"""What NumPy's kernels compute: docs/decisions/0059-sums-of-whole-numbers-are-64-bits-wide.md."""
NUMBERS = [dtype for dtype in DTYPES if not dtype.endswith("float16") and dtype != "bool"]


def registered():
    """Return the entries of opwright-cpu by library."""
    kernels = ow.current_context().kernels
    found = {}
    for op_type in kernels.op_types():
        for entry in kernels.entries(op_type):
            if entry.package.distribution == "opwright-cpu":
                found.setdefault(entry.target, []).append(entry)
    return found


@pytest.mark.parametrize("target", sorted(registered()))
def test_hook_and_library_name_the_same_kernels(target):
    entries = registered()[target]
    named = {(e.op_type, e.device, e.dtype, e.library) for e in entries}
    path = find_library_file(target, entries[0].package)
    assert path is not None
    library = _runtime.Library(str(path))
    held = set()
    for row in library.kernels:
        kernel = NativeKernel(library, row)
        held.update((kernel.op_type, kernel.device, d, kernel.library_name) for d in kernel.dtypes)
    assert named - held == set()
    assert held - named == set()


def test_every_standard_operator_with_a_reference_kernel_has_one_in_cpp():
    context = ow.current_context()
    lacking = []
    for op_type in context.kernels.op_types():
        entries = context.kernels.entries(op_type)
        reference = {e.dtype for e in entries if e.library == "numpy"} - {"float16"}
        if ANY in reference:
            reference = {*NUMBERS, "bool"}
        ours = {e.dtype for e in entries if e.package.distribution == "opwright-cpu"}
        if ANY not in ours:
            missing = reference - ours - WIDENED.get(op_type, set())
            lacking += [f"{op_type}[{dtype}]" for dtype in sorted(missing)]
    assert lacking == []


@pytest.mark.parametrize("op_type", ["cpu.fc_sgd", "cpu.fc_input_grad"])
def test_operators_of_passes_are_listed_nowhere(op_type):
    assert op_type not in ow.current_context().ops.types()
