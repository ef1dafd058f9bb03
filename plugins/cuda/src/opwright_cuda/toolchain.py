"""From sources to kernels that can be launched: compiled once, cached on disk, loaded once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from opwright_cuda import native
from opwright_cuda.cache import ImageCache
from opwright_cuda.source import Source, digest_of


class Image(NamedTuple):
    """Compiled code.

    Attributes
    ----------
    data : bytes
        What the driver loads.
    names : tuple of str
        The symbol of each expression that was asked for.
    """

    data: bytes
    names: tuple[str, ...]


class LoadedKernel(NamedTuple):
    """A kernel that can be launched.

    Attributes
    ----------
    handle : int
        The driver's.
    sizes : tuple of int
        Bytes of each parameter; None where nobody knows them.
    """

    handle: int
    sizes: tuple[int, ...] | None


class Compiler(Protocol):
    """What makes images: NVRTC, or the host's compiler in the tests."""

    @property
    def version(self) -> str:
        """Name and version; an image of another one is not used again."""

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        """Return the code of each expression, an instance of a ``__global__`` template.

        Raises
        ------
        KernelError
            With the compiler's log, the file, the expressions and the options.
        """


class Toolchain:
    """The kernels of this process, by source, expression and architecture."""

    def __init__(self, compiler: Compiler, images: ImageCache | None = None) -> None:
        self._compiler = compiler
        self._images = images
        self._kernels: dict[tuple[str, str, str], LoadedKernel] = {}
        self._lock = threading.Lock()

    def find(self, source: Source, expressions: Sequence[str], arch: str) -> list[LoadedKernel]:
        """Return each kernel; those that are new are compiled together."""
        keys = [(source.digest, expression, arch) for expression in expressions]
        with self._lock:
            missing = sorted({key[1] for key in keys if key not in self._kernels})
            if missing:
                image = self._make(source, missing, arch)
                handles = native.load_kernels(image.data, image.names)
                for expression, handle in zip(missing, handles, strict=True):
                    loaded = LoadedKernel(handle, native.parameter_sizes(handle))
                    self._kernels[source.digest, expression, arch] = loaded
            return [self._kernels[key] for key in keys]

    def _make(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        if self._images is None:
            return self._compiler.compile(source, expressions, arch)
        key = digest_of(source.digest, arch, self._compiler.version, *expressions)
        found = self._images.read(key)
        if found is None:
            found = self._compiler.compile(source, expressions, arch)
            self._images.write(key, found)
        return Image(*found)


_current: Toolchain | None = None


def current_toolchain() -> Toolchain:
    """Return the toolchain of this process: NVRTC with a cache on disk, unless it was replaced."""
    global _current  # noqa: PLW0603 - made at first use, since it imports cuda.bindings
    if _current is None:
        from opwright_cuda.nvrtc import Nvrtc

        _current = Toolchain(Nvrtc(), ImageCache.default())
    return _current


def replace_toolchain(toolchain: Toolchain | None) -> Any:
    """Use another toolchain, None for the usual one; return the one that was there."""
    global _current
    before, _current = _current, toolchain
    return before
