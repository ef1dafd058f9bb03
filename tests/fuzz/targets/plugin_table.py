"""The table of a hostile library, with wrong counts, strides, names, pointers and dtypes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import opwright as ow
from acme_operators import SCALE
from opwright import _runtime
from opwright.kernel import KernelKey
from opwright.op import Meta, OpDefinition
from opwright.targets.library import NativeLibrary

N_WARM_UP = 1
HERE = Path(__file__).parent.parent
SOURCES = HERE.parent / "core/targets/sources"

# Counts up to the real sizes of the arrays are plausible.
_COUNTS = (0, 1, 2, 3, 64, 65537, 2**31, 2**40, 2**63 - 1, -1)
_STRIDES = (0, 1, 8, 64, 71, 72, 96, 104, 128, 132, 65536, 65544, 2**40, -8)
_FLAGS = (0, 1, 2, 4, 8, 16, 2**31 - 1, -1)
_TEXTS = (*range(14), 99, -1)

# Maps each field in plugin_table.c to its possible values.
_PLUGIN = {
    0: (0, 8, 103, 104, 105, 112, 65536, 65537, -1),
    1: (0, 1, 2, -1),
    2: (0, 1, 2, 99, -1),
    **dict.fromkeys((3, 4), _TEXTS),
    **dict.fromkeys((5, 8, 11), (0, 1)),
    **dict.fromkeys((6, 9, 12), _COUNTS),
    **dict.fromkeys((7, 10, 13), _STRIDES),
}
_OP = {
    0: _STRIDES,
    **dict.fromkeys((1, 5, 6, 9), _TEXTS),
    **dict.fromkeys((2, 4, 10), (0, 1)),
    3: (*range(0, 200, 3), -1, 2**40),
    7: _FLAGS,
    8: (0, 1, 2, 64, 257, -1),
    **dict.fromkeys(range(11, 19), range(250)),
}
_KERNEL = {
    0: _STRIDES,
    **dict.fromkeys((1, 2, 3, 15, 16), _TEXTS),
    **dict.fromkeys((4, 8), (0, 1)),
    **dict.fromkeys((5, 9), (0, 1, 2, 64, 257, 2**40, -1)),
    6: (-1, 0, 50, 99, 100, 2**31 - 1),
    7: _FLAGS,
    **dict.fromkeys(range(10, 15), (0,)),
    **dict.fromkeys((17, 18, 19), (0, 1, 2, 4, 8, 16, 32, 64, 128, 255)),
}
_FIELDS = (
    *((field, values) for field, values in _PLUGIN.items()),
    *((100 + field, values) for field, values in _OP.items()),
    *((300 + 48 * row + field, values) for row in (0, 1) for field, values in _KERNEL.items()),
)


@cache
def _library() -> Path:
    """Compile the library, once in each process, and return its path."""
    folder = Path(tempfile.mkdtemp(prefix="plugin-table-"))
    array = ", ".join(map(str, SCALE.proto.to_proto().SerializeToString()))
    header = f"static const unsigned char kScaleProto[] = {{{array}}};\n"
    (folder / "proto.h").write_text(header)
    includes = [f"-I{place}" for place in (ow.get_include(), folder, SOURCES)]
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O0", "-fPIC", "-shared"]
    target = folder / "hostile.so"
    command = ["cc", *flags, *includes, "-o", str(target), str(HERE / "plugin_table.c")]
    subprocess.run(command, check=True, env={**os.environ, "LD_PRELOAD": ""})
    return target


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the errors as pairs of a field and a wrong value."""
    chosen = [rng.choice(_FIELDS) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5)))]
    return {"spoilt": [[field, rng.choice(values)] for field, values in chosen]}


_n_opened = 0


def run(case: dict[str, Any]) -> None:
    """Open the library, and use the valid parts of its table."""
    global _n_opened  # noqa: PLW0603 - a new file each time, since none is closed
    _n_opened += 1
    path = _library().with_name(f"hostile{_n_opened}.so")
    shutil.copyfile(_library(), path)
    os.environ["HOSTILE_TABLE"] = " ".join(f"{field}:{value}" for field, value in case["spoilt"])
    try:
        opened = _runtime.Library(str(path))
    finally:
        path.unlink()
    native = NativeLibrary(opened, "the hostile library")
    for op in opened.ops:
        definition = native.load_definition(op[0], hidden=bool(op[-1]))
        if definition.proto == SCALE.proto:  # its `infer` supports only this definition
            _use(native, definition)


def _use(native: NativeLibrary, definition: OpDefinition) -> None:
    """Infer shapes and prepare the kernel, as lowering does."""
    metas = ((Meta((3,), "float32"),),)
    attrs = definition.proto.fill_attrs({})
    outputs = definition.infer(metas, attrs, (1,))
    key = KernelKey(definition.op_type, "cpu", "float32", "acme")
    kernel = native.find_kernel(key)
    kernel.prepare(definition.proto, (metas, outputs), attrs, packable=(), n_threads=1, device=None)
