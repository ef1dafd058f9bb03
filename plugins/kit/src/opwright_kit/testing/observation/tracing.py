"""Calls a function at each line of a package's code, to interleave other work."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any


def make_tracer(package: str, at_line: Callable[[], None]) -> Callable[..., Any]:
    """Return a function for `sys.settrace` that calls back at each line of code of one package."""

    def trace_line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            at_line()
        return trace_line

    def trace_call(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        return trace_line if is_of_package(frame, package) else None

    return trace_call


def is_of_package(frame: FrameType, package: str) -> bool:
    """Return whether a frame runs code of a package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == package
