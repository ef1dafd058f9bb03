"""oneDNN is opened when first needed; opening the kernel library reports a missing oneDNN."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

import opwright_cpu

BEGIN = """
import sys
from pathlib import Path
import numpy as np
import opwright as ow

def is_open(name):
    return f"/{name}" in Path("/proc/self/maps").read_text()
"""

PRODUCTS = f"""{BEGIN}
def multiply(*shape):
    x, y = np.ones(shape[:2], "float32"), np.ones(shape[1:], "float32")
    with ow.context_guard(ow.current_context().with_pins({{"matmul": "onednn"}})):
        assert (ow.ops.matmul(x, y) == shape[1]).all()
    return is_open("onednn.so"), is_open("libdnnl.so")

print(multiply(1, 500, 333), multiply(300, 257, 530))
"""

MISSING = f"""{BEGIN}
from opwright import _runtime
from opwright.targets.opening import open_linked

try:
    _runtime.Library(sys.argv[1])
except ow.errors.PluginError as error:
    print(error)
opened = open_linked(lambda: _runtime.Library(sys.argv[1]), lambda: ["opwright-cpu"])
print(opened.name, is_open("libdnnl.so"))
"""


REPLACED = """
#include <dlfcn.h>

void* dlopen(const char* name, int mode) {
  void* (*next)(const char*, int) = dlsym(RTLD_NEXT, "dlopen");
  return next(name, mode);
}
"""
"""Sanitizers and profilers also replace dlopen, so the loader takes them for the caller."""


def run(code: str, *arguments: str, **variables: str) -> str:
    """Run a new process and return its output."""
    command = [sys.executable, "-c", code, *arguments]
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    env |= variables
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


def test_a_product_computed_without_onednn_does_not_open_onednn() -> None:
    assert run(PRODUCTS).strip() == "(True, False) (True, True)"


def test_onednn_opens_if_another_library_replaces_dlopen(tmp_path: Path) -> None:
    source, library = tmp_path / "dlopen.c", tmp_path / "dlopen.so"
    source.write_text(REPLACED)
    command = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    assert run(PRODUCTS, LD_PRELOAD=str(library)).strip() == "(True, False) (True, True)"


@pytest.mark.skipif(bool(find_library("dnnl")), reason="the system has oneDNN itself")
def test_kernels_report_a_missing_onednn_and_open_after_it_is_loaded(tmp_path: Path) -> None:
    [library] = [
        file for folder in opwright_cpu.__path__ for file in Path(folder).glob("onednn.so")
    ]
    copied = shutil.copy(library, tmp_path / "onednn.so")
    message, opened = run(MISSING, str(copied)).strip().splitlines()
    assert 'got "libdnnl.so.3: cannot open shared object file' in message
    assert opened == "cpu True"
