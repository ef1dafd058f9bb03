"""The compiler interface, and parallel compilation of kernel instances."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, NamedTuple, Protocol

from opwright_cuda.source import Source

INSTANCES_EACH: Final = 2
"""Instances per compiler, because starting a compiler takes as long as compiling one."""


class Image(NamedTuple):
    """Compiled code.

    Attributes
    ----------
    data : bytes
        The image that the driver loads.
    names : tuple of str
        The symbol of each requested expression.
    """

    data: bytes
    names: tuple[str, ...]


class Instance(NamedTuple):
    """One instance of a ``__global__`` function for one architecture.

    Attributes
    ----------
    source : Source
        The source of the function.
    expression : str
        ``"cosine<float>"``.
    arch : str
        ``"sm_90"``.
    """

    source: Source
    expression: str
    arch: str


class CompilerLostError(Exception):
    """An additional compiler could not start; its instances must still be compiled."""


class Compiler(Protocol):
    """A compiler of images: NVRTC or, in tests, the host compiler."""

    @property
    def version(self) -> str:
        """Name and version; images compiled by a different version are not reused."""

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        """Return the code of each expression, which is an instance of a ``__global__`` template.

        Raises
        ------
        KernelError
            With the compiler's log, file, expressions and options.
        """

    def beside(self) -> AbstractContextManager[Compiler]:
        """Start a compiler for another thread; stop it at the end.

        Raises
        ------
        CompilerLostError
            If no compiler can be started; its `compile` raises it, too, before the first image.
        """


def compile_all(
    compiler: Compiler,
    instances: Sequence[Instance],
    n_at_once: int,
    keep: Callable[[Instance, Image], None],
) -> dict[Instance, Image | Exception]:
    """Compile instances separately and concurrently.

    Parameters
    ----------
    compiler : Compiler
        Used in this thread; additional ones run in their own threads, which end before this returns
        or raises.
    instances : sequence of Instance
        Distinct instances, in the order in which they are started.
    n_at_once : int
        Maximum number compiled at the same time.
    keep : callable
        Called with each finished image, in any of the threads.

    Returns
    -------
    dict
        The image of each instance, or the error.
    """
    work = _Work(instances, keep)
    n_beside = min(n_at_once, -(-len(instances) // INSTANCES_EACH)) - 1
    with ExitStack() as stack:
        threads = _start_beside(compiler, n_beside, work, stack)
        work.do(compiler)
        _join(threads)
        work.do(compiler)  # instances that a lost compiler returned
    if work.lost is not None:
        warnings.warn(
            f"CUDA: kernels are compiled sequentially, since no additional compiler could be "
            f"started: {work.lost}",
            RuntimeWarning,
            stacklevel=2,
        )
    return work.outcomes


def _start_beside(
    compiler: Compiler, n: int, work: _Work, stack: ExitStack
) -> list[threading.Thread]:
    """Start additional compilers; closing the stack stops them and joins their threads."""
    threads: list[threading.Thread] = []
    stack.callback(_join, threads)
    try:
        for _ in range(n):
            other = stack.enter_context(compiler.beside())
            thread = threading.Thread(target=work.do, args=(other,))
            thread.start()
            threads.append(thread)
    except (CompilerLostError, RuntimeError) as error:  # RuntimeError if no thread can start
        work.lost = error
    finally:
        stack.callback(work.drop)
    return threads


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


class _Work:
    """A queue of instances that several threads compile."""

    def __init__(
        self, instances: Sequence[Instance], keep: Callable[[Instance, Image], None]
    ) -> None:
        self._waiting = deque(instances)
        self._keep = keep
        self.outcomes: dict[Instance, Image | Exception] = {}
        self.lost: Exception | None = None

    def do(self, compiler: Compiler) -> None:
        """Compile until no instance is left."""
        while True:
            try:
                instance = self._waiting.popleft()
            except IndexError:
                return
            try:
                image = compiler.compile(instance.source, [instance.expression], instance.arch)
                self._keep(instance, image)
            except CompilerLostError as error:
                self.lost = error
                self._waiting.appendleft(instance)
                return
            except Exception as error:  # noqa: BLE001 - raised when the instance is requested
                self.outcomes[instance] = error
            else:
                self.outcomes[instance] = image

    def drop(self) -> None:
        """Remove all instances from the queue."""
        self._waiting.clear()
