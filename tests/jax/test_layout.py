"""The handler structs have the layout that the installed JAX declares."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jax

NATIVE = Path(__file__).parents[2] / "plugins" / "jax" / "native"

FIELDS = {
    "ffi_extension": ("XLA_FFI_Extension_Base", "struct_size type next"),
    "ffi_version": (
        "XLA_FFI_Api_Version",
        "struct_size extensions=extension_start major=major_version minor=minor_version",
    ),
    "ffi_metadata": ("XLA_FFI_Metadata", "struct_size version=api_version traits"),
    "ffi_metadata_extension": ("XLA_FFI_Metadata_Extension", "base=extension_base metadata"),
    "ffi_error_create": (
        "XLA_FFI_Error_Create_Args",
        "struct_size extensions=extension_start message code=errc",
    ),
    "ffi_api": (
        "XLA_FFI_Api",
        "struct_size version=api_version error_create=XLA_FFI_Error_Create",
    ),
    "ffi_span": ("XLA_FFI_ByteSpan", "data=ptr length=len"),
    "ffi_scalar": ("XLA_FFI_Scalar", "dtype value"),
    "ffi_buffer": ("XLA_FFI_Buffer", "struct_size dtype data rank dims"),
    "ffi_buffers": ("XLA_FFI_Args", "struct_size size types items=args"),
    "ffi_attrs": ("XLA_FFI_Attrs", "struct_size size types names items=attrs"),
    "ffi_frame": ("XLA_FFI_CallFrame", "struct_size api context=ctx stage args results=rets attrs"),
}
"""Opwright's, JAX's, and the fields that differ in name."""

REST = """
SAME(ffi_buffers, items, XLA_FFI_Rets, rets);
_Static_assert(FFI_MAJOR == XLA_FFI_API_MAJOR, "major");
_Static_assert(FFI_EXTENSION_METADATA == XLA_FFI_Extension_Metadata, "metadata");
_Static_assert(FFI_ATTR_SCALAR == XLA_FFI_AttrType_SCALAR, "scalar");
_Static_assert(FFI_ATTR_STRING == XLA_FFI_AttrType_STRING, "string");
_Static_assert(FFI_BUFFER == XLA_FFI_ArgType_BUFFER, "argument");
_Static_assert(FFI_BUFFER == XLA_FFI_RetType_BUFFER, "result");
"""


def test_the_handler_structs_match_the_header(tmp_path: Path) -> None:
    lines = [
        '#include "xla/ffi/api/c_api.h"',
        '#include "ffi.h"',
        "#define SAME(a, b, c, d) _Static_assert(offsetof(a, b) == offsetof(c, d) && \\",
        "  sizeof(((a*)0)->b) == sizeof(((c*)0)->d), #a \".\" #b)",
    ]  # fmt: skip
    for ours, (theirs, fields) in FIELDS.items():
        for field in fields.split():
            name, _, other = field.partition("=")
            lines.append(f"SAME({ours}, {name}, {theirs}, {other or name});")
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines) + REST)
    command = ["cc", "-std=c11", "-fsyntax-only", f"-I{jax.ffi.include_dir()}", f"-I{NATIVE}"]
    compiled = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
