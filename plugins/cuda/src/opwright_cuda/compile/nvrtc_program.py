"""Compile one program with NVRTC, in this process or in a separate process.

A compiler process imports only this module and cuda-bindings, to start quickly.
"""

from __future__ import annotations

import ctypes
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple


class Program(NamedTuple):
    """The program to compile.

    Attributes
    ----------
    name, text : str
        Name and text of the file.
    headers : tuple of (str, str)
        Name and text of each includable header.
    options : tuple of str
        All of them, including the architecture.
    expressions : tuple of str
        The requested instances.
    """

    name: str
    text: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    expressions: tuple[str, ...]


class Outcome(NamedTuple):
    """The result of compiling a program.

    Attributes
    ----------
    cubin : bytes
        Empty if the program does not compile.
    names : tuple of str
        The symbol of each instance.
    log : str
        The compiler's log if it does not compile.
    failure : str
        The error code of a failure outside of the program, ``"NVRTC_ERROR_..."``.
    """

    cubin: bytes = b""
    names: tuple[str, ...] = ()
    log: str = ""
    failure: str = ""


class _CallError(Exception):
    """An NVRTC function failed."""


def version_of(api: Any) -> str:
    """Return ``"nvrtc 13.0"``."""
    _, major, minor = api.nvrtcVersion()
    return f"nvrtc {major}.{minor}"


def compile_program(api: Any, program: Program) -> Outcome:
    """Compile a program.

    Parameters
    ----------
    api : module
        ``cuda.bindings.nvrtc``.
    program : Program
        The program to compile.
    """
    names = [name.encode() for name, _ in program.headers]
    texts = [text.encode() for _, text in program.headers]
    try:
        handle = _value(
            api,
            api.nvrtcCreateProgram(
                program.text.encode(), program.name.encode(), len(names), texts, names
            ),
        )
        try:
            return _compile(api, handle, program)
        finally:
            api.nvrtcDestroyProgram(handle)
    except _CallError as error:
        return Outcome(failure=str(error))


def _compile(api: Any, handle: Any, program: Program) -> Outcome:
    for expression in program.expressions:
        _value(api, api.nvrtcAddNameExpression(handle, expression.encode()))
    options = [option.encode() for option in program.options]
    (result,) = api.nvrtcCompileProgram(handle, len(options), options)
    if result != api.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(_value(api, api.nvrtcGetProgramLogSize(handle)))
        _value(api, api.nvrtcGetProgramLog(handle, log))
        return Outcome(log=bytes(log).rstrip(b"\0").decode(errors="replace").strip())
    cubin = bytearray(_value(api, api.nvrtcGetCUBINSize(handle)))
    _value(api, api.nvrtcGetCUBIN(handle, cubin))
    symbols = (
        _value(api, api.nvrtcGetLoweredName(handle, expression.encode())).decode()
        for expression in program.expressions
    )
    return Outcome(bytes(cubin), tuple(symbols))


def _value(api: Any, answer: tuple[Any, ...]) -> Any:
    """Return the value of a call, without the leading result code."""
    result, *values = answer
    if result != api.nvrtcResult.NVRTC_SUCCESS:
        raise _CallError(result.name)
    return values[0] if values else None


def serve(descriptor: int, library: str) -> None:
    """Compile the requests of another process until it exits.

    Parameters
    ----------
    descriptor : int
        The connection: the version is sent first, then an `Outcome` for each `Program`.
    library : str
        The NVRTC library of the other process, which cuda-bindings then uses.
    """
    connection = Connection(descriptor)
    ctypes.CDLL(library)
    for part in Path(library).parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(part))  # NVRTC opens it by name, and some releases do not find its path
    from cuda.bindings import nvrtc

    connection.send(version_of(nvrtc))
    while True:
        try:
            program = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(tuple(compile_program(nvrtc, Program(*program))))
