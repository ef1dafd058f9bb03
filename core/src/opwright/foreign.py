"""Imports objects of plugins, and describes their exceptions and names."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any, Final

_VARARGS: Final = 0x04
"""The flag of code with ``*arguments``."""


def show(text: str, keep: str = "\n\t") -> str:
    r"""Return text that is safe for a terminal.

    Non-printable characters, such as in escape sequences, and characters that change the writing
    direction are escaped, as in ``\x1b`` and ``\u202e``. Characters in `keep` are not escaped;
    `keep` is empty for names.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def describe_error(error: BaseException) -> str:
    """Return the class and message of an exception, for an error about a plugin.

    Call this, or `text_of_error`, for every caught exception of a plugin. An exception of a signal
    handler, which Python may run at any point, is not a fault of the plugin and is re-raised.
    """
    text = text_of_error(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def text_of_error(error: BaseException) -> str:
    """Return only the message, as in `describe_error`; a long message is truncated."""
    raise_if_of_signal(error)
    try:
        text = show(str(error).strip())
        return text if len(text) <= 4_000 else f"{text[:4_000]}... (of {len(text):,} characters)"
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # noqa: BLE001 - any class, as of any other code of a plugin
        raise_if_of_signal(fault)
        return f"<its __str__ raises {type(fault).__name__}>"


def raise_if_of_signal(error: BaseException) -> None:
    """Re-raise an exception of a signal handler if `error` is one, or was caused by one."""
    from traceback import walk_stack  # 2 ms, only for errors

    codes = _handler_codes()
    stack = {frame for frame, _ in walk_stack(sys._getframe())}
    pending, known = [error], {id(error)}
    while pending:
        item = pending.pop()
        if any(frame.f_code in codes or _is_handler(frame) for frame in _frames(item)):
            raise item
        for cause in (item.__context__, item.__cause__):
            # The exception that a caller is handling is older, so it is not the cause.
            if cause is None or id(cause) in known or not stack.isdisjoint(_frames(cause)):
                continue
            known.add(id(cause))
            pending.append(cause)


def _frames(error: BaseException) -> list[FrameType]:
    from traceback import walk_tb  # 2 ms, only for errors

    return [frame for frame, _ in walk_tb(error.__traceback__)]


def _handler_codes() -> set[CodeType]:
    """Return the code objects of the currently installed signal handlers."""
    import signal  # 1 ms, only for errors

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    functions = (
        function
        for handler in handlers
        if callable(handler)
        for function in (handler, getattr(handler, "func", None), type(handler).__call__)
    )
    codes = (getattr(function, "__code__", None) for function in functions)
    return {code for code in codes if isinstance(code, CodeType)}


def _is_handler(frame: FrameType) -> bool:
    """Return whether a frame's arguments are a number and the frame of its caller.

    Python calls handlers in this way, even a handler that has removed itself.
    """
    code, given = frame.f_code, frame.f_locals
    values = [given.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & _VARARGS:
        rest = given.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        values += rest if isinstance(rest, tuple) else ()
    return any(
        isinstance(number, int) and caller is not None and caller is frame.f_back
        for number, caller in pairwise(values)
    )


def import_object(target: str) -> Any:
    """Return the object that ``"module:attribute"`` names; raises any exception of its import."""
    module, _, attribute = target.partition(":")
    value: Any = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        value = getattr(value, name)
    return value
