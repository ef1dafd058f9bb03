"""The toolchain that compiles kernels once, caches them on disk and loads them once."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from opwright import get_num_threads
from opwright.errors import OpwrightError
from opwright_cuda import native
from opwright_cuda.compile.compiler import Compiler, Image, Instance, compile_all
from opwright_cuda.compile.image_cache import ImageCache
from opwright_cuda.source import Source, digest_of


class LoadedKernel(NamedTuple):
    """A launchable kernel.

    Attributes
    ----------
    handle : int
        The driver's handle.
    sizes : tuple of int
        Bytes of each parameter; None if unknown.
    """

    handle: int
    sizes: tuple[int, ...] | None


_toolchains: weakref.WeakSet[Toolchain] = weakref.WeakSet()


def _renew_locks() -> None:
    for toolchain in list(_toolchains):
        toolchain.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


class Toolchain:
    """The kernels of this process, by source, expression and architecture.

    Each instance is compiled, cached and loaded separately, so any plan can reuse it.

    Parameters
    ----------
    compiler : Compiler
        Used by one thread at a time; other threads use the additional compilers that it starts.
    images : ImageCache, optional
        The disk cache.
    """

    def __init__(self, compiler: Compiler, images: ImageCache | None = None) -> None:
        self._compiler = compiler
        self._images = images
        self._kernels: dict[tuple[str, str, str], LoadedKernel] = {}
        self._failures: dict[tuple[str, str, str], Exception] = {}
        self._lock = threading.Lock()
        _toolchains.add(self)

    def renew_lock(self) -> None:
        """Create a new lock in a forked child; a thread of the parent may hold the old lock."""
        self._lock = threading.Lock()

    def must_compile(self, instance: Instance) -> bool:
        """Return whether an instance must be compiled: it is neither loaded nor on disk."""
        if _key(instance) in self._kernels:
            return False
        return self._images is None or not self._images.has(self._name(instance))

    def find(self, source: Source, expressions: Sequence[str], arch: str) -> list[LoadedKernel]:
        """Return each kernel; new kernels are compiled concurrently.

        Raises
        ------
        KernelError
            If a kernel does not compile, or the driver rejects it.
        """
        instances = [Instance(source, expression, arch) for expression in expressions]
        keys = [_key(instance) for instance in instances]
        with self._lock:
            if not self._failures.keys() & set(keys):
                self._provide(instances)
            for key in keys:
                failure = self._failures.pop(key, None)
                if failure is not None:
                    raise failure
            return [self._kernels[key] for key in keys]

    def compile(self, groups: Iterable[Sequence[Instance]]) -> None:
        """Compile deferred instances of several kernels; `find` raises each error, once."""
        with self._lock:
            self._provide([instance for group in groups for instance in group])

    def _provide(self, instances: Iterable[Instance]) -> None:
        """Load instances from disk or compile them; record failures."""
        images: dict[Instance, Image | Exception] = {}
        missing = []
        for instance in dict.fromkeys(i for i in instances if _key(i) not in self._kernels):
            found = None if self._images is None else self._images.read(self._name(instance))
            if found is None:
                missing.append(instance)
            else:
                images[instance] = found
        if missing:
            # Start with the instances that have the longest sources, which are expected to take
            # longest.
            missing.sort(key=lambda instance: -len(instance.source.text))
            n_at_once = get_num_threads()
            images |= compile_all(self._compiler, missing, n_at_once, self._keep)
        for instance, image in images.items():
            self._load(instance, image)

    def _load(self, instance: Instance, image: Image | Exception) -> None:
        key = _key(instance)
        if isinstance(image, Exception):
            self._failures[key] = image
            return
        try:
            (handle,) = native.load_kernels(image.data, image.names)
            self._kernels[key] = LoadedKernel(handle, native.parameter_sizes(handle))
        except OpwrightError as error:
            self._failures[key] = error

    def _keep(self, instance: Instance, image: Image) -> None:
        if self._images is not None:
            self._images.write(self._name(instance), image)

    def _name(self, instance: Instance) -> str:
        """Return the key of an image on disk, a hash of everything that affects the image."""
        source, expression, arch = instance
        return digest_of(source.digest, arch, self._compiler.version, expression)


def _key(instance: Instance) -> tuple[str, str, str]:
    return (instance.source.digest, instance.expression, instance.arch)


_current: Toolchain | None = None
_current_lock = threading.Lock()


def current_toolchain() -> Toolchain:
    """Return the toolchain of this process: NVRTC with a disk cache, unless replaced."""
    global _current  # noqa: PLW0603 - made at first use, since it imports cuda.bindings
    with _current_lock:
        if _current is None:
            from opwright_cuda.compile.nvrtc import Nvrtc

            _current = Toolchain(Nvrtc(), ImageCache.default())
        return _current


def replace_toolchain(toolchain: Toolchain | None) -> Any:
    """Replace the toolchain (None means the default), and return the previous toolchain."""
    global _current
    before, _current = _current, toolchain
    return before
