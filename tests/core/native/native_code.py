"""Calls a plan as native code of another framework does, with addresses of the caller's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    *(ctypes.c_char_p, ctypes.c_uint64),
)


def run_directly(plan: Any, feeds: Sequence[int], results: Sequence[int]) -> str:
    """Run a plan on arrays at given addresses, without the GIL; return the error message or ''."""
    function, address = plan.direct_entry()
    message = ctypes.create_string_buffer(512)
    status = _RUN(function)(
        address, (ctypes.c_void_p * len(feeds))(*feeds), (ctypes.c_void_p * len(results))(*results),
        message, len(message),
    )  # fmt: skip
    assert (status == 0) == (message.value == b"")
    return message.value.decode()
