"""NVRTC, NVIDIA's compiler library, used through cuda-bindings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from multiprocessing import spawn
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final

from opwright.errors import KernelError, MissingRequirementError
from opwright_cuda.compile.compiler import Compiler, CompilerLostError, Image
from opwright_cuda.compile.nvrtc_program import Outcome, Program, compile_program, version_of
from opwright_cuda.source import Source

OPTIONS: Final = ("-std=c++17", "-lineinfo", "-default-device")
"""Options for every source, without fast math or flush to zero, so that results match the CPU."""

_LOOK_S: Final = 1.0
"""Interval at which a process is checked while waiting for its answer."""


class Nvrtc:
    """Compiles for any architecture, even if no such GPU is present."""

    @cached_property
    def _api(self) -> Any:
        try:
            from cuda.bindings import nvrtc

            nvrtc.nvrtcVersion()
        except (ImportError, RuntimeError) as error:  # RuntimeError if its library is missing
            raise MissingRequirementError(
                f"CUDA: kernels are compiled by NVRTC, got {type(error).__name__}: {error}; "
                "pip install cuda-bindings nvidia-cuda-nvrtc"
            ) from error
        return nvrtc

    @cached_property
    def version(self) -> str:
        """The name and version, such as ``"nvrtc 13.0"``."""
        return version_of(self._api)

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        """Return the cubin of each expression; see `opwright_cuda.compile.compiler.Compiler`."""
        options = (f"-arch={arch}", *OPTIONS, *source.options)
        program = Program(source.name, source.text, source.headers, options, tuple(expressions))
        outcome = self._run(program)
        if outcome.failure:
            raise KernelError(
                f"NVRTC failed with {outcome.failure}; report it with the kernel's name"
            )
        if not outcome.cubin:
            raise KernelError(
                f"{source.name}: {self.version} cannot compile {', '.join(expressions)} with "
                f"{' '.join(options)}:\n{outcome.log}"
            )
        return Image(outcome.cubin, outcome.names)

    def _run(self, program: Program) -> Outcome:
        return compile_program(self._api, program)

    @contextmanager
    def beside(self) -> Iterator[Compiler]:
        """Start NVRTC in another process, because a lock serializes programs within a process."""
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = load_nvidia_dynamic_lib("nvrtc").abs_path
        if library is None:
            raise CompilerLostError("NVRTC's library path is unknown")
        process, connection = _start(library)
        try:
            yield _NvrtcBeside(self.version, process, connection)
        finally:
            process.kill()  # safe, because the process does not write files
            process.wait()


def _start(library: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a process that compiles programs; return the process and the connection to it."""
    executable = spawn.get_executable()
    if not executable or getattr(sys, "frozen", False):
        raise CompilerLostError(f"a Python executable must be available, got {executable!r}")
    path = list(map(str, sys.path))
    try:
        ours, theirs = Pipe()
        with theirs:
            script = (
                f"import sys; sys.path[:] = {path!r}; "
                "from opwright_cuda.compile.nvrtc_program import serve; "
                f"serve({theirs.fileno()}, {library!r})"
            )
            process = subprocess.Popen(
                [executable, "-P", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # keyboard interrupts reach only this process
            )
        return process, ours
    except OSError as error:
        raise CompilerLostError(f"{type(error).__name__}: {error}") from error


class _NvrtcBeside(Nvrtc):
    """NVRTC in another process, for use by one thread."""

    def __init__(
        self, version: str, process: subprocess.Popen[bytes], connection: Connection
    ) -> None:
        self.version = version
        self._process = process
        self._connection = connection
        self._is_ready = False

    def _run(self, program: Program) -> Outcome:
        self._begin()
        try:
            self._connection.send(tuple(program))
            return Outcome(*self._receive())
        except (EOFError, OSError) as error:
            raise KernelError(
                f"{program.name}: the process that compiled {', '.join(program.expressions)} must "
                f"answer, got exit status {self._process.wait()}; set "
                "OPWRIGHT_NUM_THREADS=1 to compile in this process"
            ) from error

    def _begin(self) -> None:
        """Wait until the process can compile."""
        if self._is_ready:
            return
        try:
            version = self._receive()
        except (EOFError, OSError) as error:
            status = self._process.wait()
            raise CompilerLostError(f"the process ended with exit status {status}") from error
        if version != self.version:
            raise CompilerLostError(f"the process must load {self.version}, got {version}")
        self._is_ready = True

    def _receive(self) -> Any:
        """Return the next message; poll, since a process exit could otherwise go unnoticed."""
        while not self._connection.poll(_LOOK_S):
            if self._process.poll() is not None and not self._connection.poll():
                raise EOFError
        return self._connection.recv()
