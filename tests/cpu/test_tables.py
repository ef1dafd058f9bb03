"""The kernel table of the build matches the kernels in the libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import opwright as ow
from opwright import _runtime
from opwright.kernel import ANY
from opwright.op import DTYPES, NARROW_DTYPES
from opwright.targets.native_kernel import NativeKernel
from opwright.targets.opening import find_library_file

WIDENED = {"sum": {"bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"}}
"""Dtypes in which only NumPy kernels sum: docs/decisions/0059-sums-of-integers-have-64-bits.md."""
BOOL, INTEGERS = {"bool"}, {f"{s}int{bits}" for s in ("", "u") for bits in (8, 16, 32, 64)}
SELDOM = {
    **{f"adaptive_max_pool{n}d": INTEGERS for n in (2, 3)},
    **dict.fromkeys(("scale", "pow_scalar"), INTEGERS),
    **{f"max_pool{n}d": {"uint16", "uint32", "uint64"} for n in (2, 3)},
    **dict.fromkeys(("sort", "argsort"), BOOL),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "top_k"), BOOL),
}
"""Dtypes that PyTorch and NumPy accept, but that are too rare for a C++ kernel."""
_LAPACK = "NumPy calls compiled LAPACK functions"
NUMPY_ALONE = {
    **dict.fromkeys(("print", "assert_true"), "Python prints the text or raises the error"),
    "std.as_shape": "it only converts an array to a shape",
    "roi_align_places": "only gradients of max pooling need it",
    **dict.fromkeys(("inverse", "cholesky", "solve", "det", "det_grad", "slogdet"), _LAPACK),
    "masked_select": "NumPy does it in C",
}
"""Standard operators without a C++ kernel, with the reason."""

NUMBERS = {*DTYPES} - {"float16", "bfloat16", "bool", *NARROW_DTYPES}


def registered():
    """Return the entries of opwright-cpu by library."""
    kernels = ow.current_context().kernels
    found = {}
    for op_type in kernels.op_types():
        for entry in kernels.entries(op_type):
            if entry.package.distribution == "opwright-cpu":
                found.setdefault(entry.target, []).append(entry)
    return found


def library_of(target):
    """Return the file that the hooks refer to."""
    path = find_library_file(target, registered()[target][0].package)
    assert path is not None
    return Path(path)


@pytest.mark.parametrize("target", sorted(registered()))
def test_table_and_library_list_the_same_kernels(target):
    named = {(e.op_type, e.device, e.dtype, e.library, e.priority) for e in registered()[target]}
    library = _runtime.Library(str(library_of(target)))
    held = set()
    for row in library.kernels:
        kernel = NativeKernel(library, row)
        key = (kernel.op_type, kernel.device)
        held.update((*key, d, kernel.library_name, kernel.priority) for d in kernel.dtypes)
    assert named - held == set()
    assert held - named == set()


def test_every_library_is_in_the_table():
    files = {library_of(target) for target in registered()}
    [folder] = {file.parent for file in files}
    assert set(folder.glob("*.so")) == files


def test_discovery_does_not_open_the_libraries(tmp_path):
    code = """
import opwright
assert opwright.current_context().kernels.op_types()
print([line for line in open("/proc/self/maps") if "opwright_cpu/" in line])
"""
    env = os.environ | {"OPWRIGHT_CACHE_DIR": str(tmp_path)}  # no index, so the hooks run
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=True)
    assert done.stdout.strip() == b"[]"


def test_every_standard_operator_with_a_reference_kernel_has_a_cpp_kernel():
    context = ow.current_context()
    lacking = []
    for op_type in context.kernels.op_types():
        entries = context.kernels.entries(op_type)
        reference = {e.dtype for e in entries if (e.package.plugin, e.library) == ("std", "numpy")}
        reference -= {"float16"}
        if ANY in reference:
            reference |= {*NUMBERS, "bool"}
            reference.remove(ANY)
        ours = {e.dtype for e in entries if e.package.distribution == "opwright-cpu"}
        if ANY in ours:
            reference &= {*NARROW_DTYPES}
        missing = reference - ours - WIDENED.get(op_type, set()) - SELDOM.get(op_type, set())
        lacking += [f"{op_type}[{dtype}]" for dtype in sorted(missing)]
    assert [name for name in lacking if name.partition("[")[0] not in NUMPY_ALONE] == []
    assert sorted({name.partition("[")[0] for name in lacking}) == sorted(NUMPY_ALONE)


@pytest.mark.parametrize("op_type", ["cpu.fc_sgd", "cpu.fc_input_grad", "cpu.gelu_fc"])
def test_operators_created_only_by_passes_are_not_public(op_type):
    assert op_type not in ow.current_context().ops.types()
