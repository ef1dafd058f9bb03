"""Builds wheels of small plugins, most with one fault each, as zip files with metadata."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

HEAD = "import opwright.plugin as plugin\n\n"

SWISH = """
import numpy as np
from opwright.op import OpMaker, no_gradient, same_shape_as

def swish(x, out):
    np.divide(x, 1 + np.exp(-x), out=out)

SWISH = (
    OpMaker("{name}.swish")
    .add_comment("Swish, out = x * sigmoid(x).")
    .add_input("x", "any shape, float")
    .add_output("out", "shape and dtype of x").same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("a test"))
)
"""

OPS = """
@plugin.hookimpl
def opwright_ops(registry):
    registry.add("{name}.swish", "{package}.swish:SWISH")
"""

KERNELS = """
@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("{name}.swish", device="cpu", dtypes=["float64"],
                 kernel="{package}.swish:swish")
"""

LIBRARY_KERNELS = """
@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("{name}.swish", device="cpu", dtypes=["float64"],
                 kernel="{package}/lib{name}.so")
"""

GOOD = HEAD + OPS + KERNELS
COMPILED = HEAD + OPS + LIBRARY_KERNELS

HALF = (
    GOOD
    + """
@plugin.hookimpl
def opwright_devices(registry):
    registry.add("half_device", "{package}.swish:DEVICE")
    raise RuntimeError("the other half")
"""
)

WRONG_SIGNATURE = HEAD + "@plugin.hookimpl\ndef opwright_ops(registry, verbose):\n    pass\n"

DUPLICATE_OPERATOR = (
    HEAD
    + OPS
    + """
    registry.add("{name}.swish", "{package}.swish:SWISH")
"""
)

# The kernel has the same operator, device, dtype and library as a kernel of another plugin.
DUPLICATE_KERNEL = (
    HEAD
    + """
@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("apple.swish", device="cpu", dtypes=["float64"], library="apple",
                 kernel="{package}.swish:swish")
"""
)

PYTHON_PLUGINS = {
    "apple": GOOD,
    "zebra": GOOD,
    "raises": "1 / 0\n",
    "newer_core": "from opwright.op import of_a_newer_release\n",
    "signature": WRONG_SIGNATURE,
    "twice": DUPLICATE_OPERATOR,
    "rival": DUPLICATE_KERNEL,
    "half": HALF,
}
"""Hook modules by plugin name."""

STUCK = (
    HEAD
    + """
@plugin.hookimpl
def opwright_ops(registry):
    registry.add("{name}.swish", "{package}.slow:SWISH")
"""
)
"""Names an operator in a separate module of the same wheel."""

ENDLESS = "import time\nwhile True:\n    time.sleep(60)\n"

LIBRARY = r"""
#include "opwright/abi.h"

static int32_t twice(const ow_call* call) {
  const DLTensor* x = call->args[0];
  int64_t n = 1;
  for (int32_t i = 0; i < x->ndim; ++i) n *= x->shape[i];
  for (int64_t i = 0; i < n; ++i) {
    ((double*)call->args[1]->data)[i] = 2 * ((const double*)x->data)[i];
  }
  return OW_OK;
}

static const DLDataType dtypes[] = {{kDLFloat, 64, 1}};

static const ow_kernel kernel = {.size = sizeof(ow_kernel),
                                 .op_type = NAME ".swish",
                                 .device = "cpu",
                                 .dtypes = dtypes,
                                 .n_dtypes = 1,
                                 .priority = 50,
                                 .run = twice};

static const ow_plugin plugin = {.size = sizeof(ow_plugin),
                                 .abi_major = OW_ABI_MAJOR,
                                 .name = NAME,
                                 .version = "1.0",
                                 .kernels = &kernel,
                                 .n_kernels = 1,
                                 .kernel_stride = sizeof(ow_kernel)};

__attribute__((visibility("default"))) int32_t ENTRY(const ow_host* host, const ow_plugin** out) {
  (void)host;
  FAULT;
  *out = &plugin;
  return OW_OK;
}
"""
"""A library with one kernel; NAME is the plugin name, ENTRY the entry symbol, FAULT the fault."""

ENTRY = "opwright_plugin_v1"

COMPILED_PLUGINS = {
    "compiled": (ENTRY, ""),
    "no_entry": ("some_function", ""),
    "newer_abi": ("opwright_plugin_v2", ""),
    "no_symbol": (ENTRY, "extern void of_a_newer_release(void); of_a_newer_release()"),
    "segfault": (ENTRY, "*(volatile int*)8 = 1"),
}
"""Entry symbol and fault by plugin name."""


def write_wheel(
    folder: Path,
    name: str,
    table: str,
    *,
    version: str = "1.0",
    distribution: str | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a wheel whose plugin is `name`; return its path.

    Parameters
    ----------
    folder : Path
        The folder to write to.
    name : str
        Name of the plugin; ``{name}`` in the modules is replaced by it, ``{package}`` for the
        package.
    table : str
        Its hook module.
    version : str
        The version of the distribution.
    distribution : str, optional
        Its name; by default ``opwright-<name>``.
    files : mapping of str to bytes, optional
        Additional files of the package.
    """
    distribution = distribution or f"opwright-{name.replace('_', '-')}"
    package = distribution.replace("-", "_")
    stem = f"{package}-{version}"
    info = f"{stem}.dist-info"
    texts = {
        f"{package}/__init__.py": "",
        f"{package}/plugin.py": _fill(table, name, package),
        f"{package}/swish.py": _fill(SWISH, name, package),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[opwright.plugins]\n{name} = {package}.plugin\n",
    }
    contents = {path: text.encode() for path, text in texts.items()}
    contents |= {f"{package}/{path}": data for path, data in (files or {}).items()}
    rows = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in contents.items():
            archive.writestr(path, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _fill(text: str, name: str, package: str) -> str:
    return text.replace("{name}", name).replace("{package}", package)
