"""``opwright.ops``: every discovered operator as a function, for variables and for arrays.

``opwright.ops.softmax(x, axis=-1)`` appends to the current block where ``x`` is a `Variable` and
computes at once where it is an array. A third party's operators are in a namespace of its name:
``opwright.ops.acme.swish``. Functions are made at first use, so that plugins show up by themselves.
"""

from __future__ import annotations

from typing import Any

from opwright.ops.namespace import Namespace

_ROOT = Namespace("")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_ROOT, name)


def __dir__() -> list[str]:
    return dir(_ROOT)
