"""Decides whether the outcome of a case is intended: a result, or an intentional error."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import numpy as np

from opwright.errors import OpwrightError

# Exceptions that indicate a bug in opwright.
_INTERNAL = (
    AssertionError,
    AttributeError,
    KeyError,
    IndexError,
    NameError,
    NotImplementedError,
    RecursionError,
    SystemError,
    ZeroDivisionError,
)
_BORDER = ("incompatible function arguments", "incompatible constructor arguments")


def find_fault(error: BaseException) -> str | None:
    """Return why an error is an opwright fault, or None if it was raised intentionally.

    Intentional errors are all classes of `opwright.errors` that no bug causes (lack of memory in a
    NumPy kernel is not a bug), and the documented TypeError of a call with wrong arguments.
    """
    for cause in _chain(error):
        if isinstance(cause, OpwrightError):
            continue
        text = str(cause)
        if isinstance(cause, _INTERNAL) or any(border in text for border in _BORDER):
            return f"{type(cause).__name__}: {text[:200]}"
    if isinstance(error, OpwrightError):
        return None
    if isinstance(error, TypeError) and _is_of_a_call(str(error)):
        return None
    if isinstance(error, np.exceptions.AxisError) or type(error).__name__ == "_ArrayMemoryError":
        return f"{type(error).__name__} of NumPy: {error}"
    return f"{type(error).__name__}: {str(error)[:200]}"


def _is_of_a_call(text: str) -> bool:
    """Return whether a TypeError says that arguments do not match the signature of a function."""
    return "() " in text and ("argument" in text or "positional" in text)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def signature_of(error: BaseException, fault: str) -> str:
    """Return what identifies a kind of fault: the error, and where it was raised."""
    last = list(_chain(error))[-1]
    frames = traceback.extract_tb(last.__traceback__)
    place = frames[-1] if frames else None
    where = "nowhere" if place is None else f"{place.filename.rpartition('/')[2]}:{place.name}"
    return f"{fault.partition(':')[0]} in {where}"
