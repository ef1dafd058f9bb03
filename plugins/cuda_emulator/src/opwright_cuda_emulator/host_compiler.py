"""Compiles kernels and the emulated driver with the C++ compiler of the host instead of NVRTC."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from opwright.errors import KernelError, OpwrightError
from opwright_cuda.compile.compiler import Compiler, Image
from opwright_cuda.source import Source, digest_of

NATIVE: Final = Path(__file__).parent / "native"
"""The C++ sources of the emulated driver, and the shim for CUDA's built-ins."""

FLAGS: Final = ("-std=c++17", "-fPIC", "-shared", "-w", "-fno-strict-aliasing")
"""The flags for kernels, without strict aliasing, since kernels read vectors by other pointers."""

TRAPS: Final = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")
"""Stops a kernel at an access that is misaligned for its type, as a GPU does. Traps do not need a
sanitizer library. GCC and Clang support both flags."""


class HostCompiler:
    """Compiles sources for the CPU; each set of template instances is compiled once.

    Parameters
    ----------
    folder : Path
        Folder for libraries; existing libraries are reused.
    flags : sequence of str
        The compiler flags, such as ``-O1`` or ``-fsanitize=address,undefined``. Sanitizers check
        only the kernels.
    """

    def __init__(self, folder: Path, flags: Sequence[str] = ("-O1",)) -> None:
        compiler = shutil.which(os.environ.get("CXX", "c++"))
        if compiler is None:
            raise OpwrightError(
                "opwright_cuda_emulator: a C++ compiler must be installed, got none on "
                "PATH; install g++ or set CXX"
            )
        self.compiler = compiler
        self.folder = folder
        has_sanitizer = any(flag.startswith("-fsanitize=") for flag in flags)
        self.flags = (*FLAGS, *flags, *(() if has_sanitizer else TRAPS))
        self._ready: dict[tuple[str, str], tuple[Path, str]] = {}

    @cached_property
    def version(self) -> str:
        """The version string of the compiler, and the flags."""
        return " ".join([self._name, *self.flags])

    @cached_property
    def _name(self) -> str:
        answer = subprocess.run([self.compiler, "--version"], capture_output=True, check=True)
        return answer.stdout.decode().splitlines()[0]

    def build_driver(self) -> Path:
        """Build the emulated driver, which also emulates cuBLASLt and cuDNN.

        Sanitizers check only the kernels, because the accesses that the driver makes for all
        threads of a block would look like races. Most of the driver is therefore shared by all
        configurations.
        """
        sanitizers = "".join(flag for flag in self.flags if flag.startswith("-fsanitize="))
        watching = [f"-D{name}" for what, name in _WATCHING.items() if what in sanitizers]
        headers = [file.read_text() for file in sorted(NATIVE.glob("*.h"))]
        objects = [
            self._build_object(file, headers, watching if file.name in _WATCHED else [])
            for file in sorted(NATIVE.glob("*.cc"))
        ]
        target = self.folder / f"driver-{digest_of(*(file.name for file in objects))[:16]}.so"
        if not target.exists():
            self._run(["-shared", *map(str, objects), "-ldl", "-lpthread"], target, "the emulator")
        return target

    def _build_object(self, file: Path, headers: Sequence[str], flags: Sequence[str]) -> Path:
        # The driver is optimized, because it schedules the threads of every block.
        flags = ["-std=c++17", "-fPIC", "-O2", "-w", "-fvisibility=hidden", *flags]
        digest = digest_of(self._name, *flags, file.read_text(), *headers)[:16]
        target = self.folder / f"{file.stem}-{digest}.o"
        if not target.exists():
            arguments = [*flags, f"-I{NATIVE}", "-c", str(file)]
            self._run(arguments, target, f"the emulator: {file.name}")
        return target

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        """Compile these instances to an image; see `opwright_cuda.compile.compiler.Compiler`."""
        found = [self._ready.get((source.digest, expression)) for expression in expressions]
        first = found[0]
        if first is not None and all(e is not None and e[0] == first[0] for e in found):
            names = tuple(entry[1] for entry in found if entry is not None)
            return Image(os.fsencode(first[0]) + b"\0", names)
        path, names = self.build(source, expressions)
        return Image(os.fsencode(path) + b"\0", names)

    def beside(self) -> AbstractContextManager[Compiler]:
        """Return this compiler, since each C++ compilation is a separate process."""
        return nullcontext(self)

    def build(self, source: Source, expressions: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
        """Compile instances into one library; return the library and the entry names."""
        digest = digest_of(self.version, _SHIM_DIGEST, source.digest, *expressions)[:24]
        names = tuple(f"ow_entry_{i}" for i in range(len(expressions)))
        target = self.folder / f"{source.name}-{digest}.so"
        if not target.exists():
            entries = [
                f'OW_ENTRY {name} = shim::Entry<&{expression}>::Make("{_quoted(expression)}");'
                for name, expression in zip(names, expressions, strict=True)
            ]
            text = f'#line 1 "{source.name}"\n{source.text}\n' + "\n".join(entries) + "\n"
            with self._own_folder() as folder:
                write_headers(folder, source.headers)
                file = folder / f"{source.name}.cc"
                file.write_text(text)
                flags = [*self.flags, *_host_options(source)]
                flags += [*self._include_shim(flags), f"-I{folder}", f"-I{NATIVE}"]
                self._run([*flags, str(file)], target, f"{source.name}: {', '.join(expressions)}")
        for name, expression in zip(names, expressions, strict=True):
            self._ready[source.digest, expression] = (target, name)
        return target, names

    def _include_shim(self, flags: Sequence[str]) -> list[str]:
        """Return the options for a precompiled shim header for GCC.

        Parsing the shim takes half the compile time of a small kernel. Clang refuses a precompiled
        header if a system header is newer, so it always parses the shim.
        """
        if "clang" in self._name:
            return []
        target = self.folder / f"shim-{digest_of(self._name, _SHIM_DIGEST, *flags)[:16]}"
        if not target.exists():
            with self._own_folder() as folder:
                made = folder / target.name
                write_headers(made, [(name, (NATIVE / name).read_text()) for name in _SHIM])
                header = made / "shim.h"
                self._run([*flags, "-x", "c++-header", str(header)], made / "shim.h.gch", "shim.h")
                with suppress(OSError):  # another process finished first
                    made.rename(target)
        return ["-include", str(target / "shim.h")]

    @contextmanager
    def _own_folder(self) -> Iterator[Path]:
        """Yield a private folder, since several processes can compile the same sources."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder)

    def _run(self, arguments: Sequence[str], target: Path, what: str) -> None:
        with self._own_folder() as folder:
            made = folder / target.name
            command = [self.compiler, *arguments, "-o", str(made)]
            answer = subprocess.run(command, capture_output=True, check=False)
            if answer.returncode != 0:
                raise KernelError(
                    f"{what}: the C++ compiler failed with {' '.join(command)}:\n"
                    f"{answer.stderr.decode(errors='replace')}"
                )
            made.replace(target)


_SHIM: Final = ("shim.h", "runtime.h")
_SHIM_DIGEST: Final = digest_of(*[(NATIVE / name).read_text() for name in _SHIM])

_WATCHED: Final = ("block.cc", "fibers.cc")
_WATCHING: Final = {"address": "OPWRIGHT_WATCH_MEMORY", "thread": "OPWRIGHT_WATCH_THREADS"}
"""Macros for the driver files that switch fibers, which depend on the sanitizer."""


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _host_options(source: Source) -> list[str]:
    """Convert the NVRTC options of a source to options of the host compiler."""
    return ["-ffp-contract=off"] if "-fmad=false" in source.options else []


def write_headers(folder: Path, headers: Iterable[tuple[str, str]]) -> None:
    """Write headers into an include folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in headers:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
