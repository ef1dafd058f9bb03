"""What compiles, and how several instances of kernels are compiled at the same time."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, NamedTuple, Protocol

from opwright_cuda.source import Source

INSTANCES_EACH: Final = 2
"""What one more compiler must find to do: it takes as long to begin as for one instance."""


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


class Instance(NamedTuple):
    """One instance of a ``__global__`` function for one architecture.

    Attributes
    ----------
    source : Source
        Where the function is.
    expression : str
        ``"cosine<float>"``.
    arch : str
        ``"sm_90"``.
    """

    source: Source
    expression: str
    arch: str


class CompilerLostError(Exception):
    """A compiler beside another one could not begin; what it was given is still to be compiled."""


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

    def beside(self) -> AbstractContextManager[Compiler]:
        """Give a compiler that another thread may use at the same time; at the end it is stopped.

        Raises
        ------
        CompilerLostError
            Where there can be none; its `compile` raises it, too, before the first image.
        """


def compile_all(
    compiler: Compiler,
    instances: Sequence[Instance],
    n_at_once: int,
    keep: Callable[[Instance, Image], None],
) -> dict[Instance, Image | Exception]:
    """Compile instances, each by itself, several at the same time.

    Parameters
    ----------
    compiler : Compiler
        Used in this thread; others beside it in threads of their own, which have ended when this
        returns or raises.
    instances : sequence of Instance
        Each once, in the order in which they are begun.
    n_at_once : int
        The most that are compiled at the same time.
    keep : callable
        Called with each image as soon as it is there, in any of the threads.

    Returns
    -------
    dict
        The image of each, or the error.
    """
    work = _Work(instances, keep)
    n_beside = min(n_at_once, -(-len(instances) // INSTANCES_EACH)) - 1
    with ExitStack() as stack:
        threads = _start_beside(compiler, n_beside, work, stack)
        work.do(compiler)
        for thread in threads:
            thread.join()
        work.do(compiler)  # what was given back
    if work.lost is not None:
        warnings.warn(
            "CUDA: kernels are compiled one after the other, for no compiler could be started "
            f"beside this process: {work.lost}",
            RuntimeWarning,
            stacklevel=2,
        )
    return work.outcomes


def _start_beside(
    compiler: Compiler, n: int, work: _Work, stack: ExitStack
) -> list[threading.Thread]:
    """Let more compilers work; leaving the stack stops them, then waits for their threads."""
    threads: list[threading.Thread] = []
    stack.callback(_join, threads)
    try:
        for _ in range(n):
            other = stack.enter_context(compiler.beside())
            thread = threading.Thread(target=work.do, args=(other,))
            thread.start()
            threads.append(thread)
    except (CompilerLostError, RuntimeError) as error:  # the latter where no thread can start
        work.lost = error
    finally:
        stack.callback(work.drop)
    return threads


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


class _Work:
    """Instances to be compiled, taken by several threads."""

    def __init__(
        self, instances: Sequence[Instance], keep: Callable[[Instance, Image], None]
    ) -> None:
        self._waiting = deque(instances)
        self._keep = keep
        self.outcomes: dict[Instance, Image | Exception] = {}
        self.lost: Exception | None = None

    def do(self, compiler: Compiler) -> None:
        """Compile until nothing is left."""
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
            except Exception as error:  # noqa: BLE001 - raised where the instance is wanted
                self.outcomes[instance] = error
            else:
                self.outcomes[instance] = image

    def drop(self) -> None:
        """Begin with nothing more."""
        self._waiting.clear()
