"""Several instances are compiled concurrently, and a failure affects only its instance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import spawn
from pathlib import Path
from typing import Any

import pytest

from opwright.errors import KernelError
from opwright_cuda.compile.compiler import Compiler, CompilerLostError, Image, Instance, compile_all
from opwright_cuda.compile.nvrtc import Nvrtc
from opwright_cuda.source import Source

SOURCE = Source("f.cu", "template <int n> __global__ void f(int* x) { *x = n; }")
PATIENCE_S = 600


def instances(n: int) -> list[Instance]:
    return [Instance(SOURCE, f"f<{i}>", "sm_90") for i in range(n)]


def compile_some(compiler: Compiler, n: int, n_at_once: int) -> dict[str, Any]:
    """Compile n expressions; return the outcome of each by expression."""
    outcomes = compile_all(compiler, instances(n), n_at_once, lambda *_: None)
    return {instance.expression: outcome for instance, outcome in outcomes.items()}


class Fake:
    """A compiler that calls a function, records its threads, and counts additional compilers."""

    version = "fake 1"

    def __init__(self, function: Callable[[str], None] = lambda expression: None) -> None:
        self.function = function
        self.threads: dict[str, threading.Thread] = {}
        self.n_beside = 0
        self.n_stopped = 0

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        (expression,) = expressions
        assert expression not in self.threads, "it was compiled twice"
        self.threads[expression] = threading.current_thread()
        self.function(expression)
        return Image(expression.encode(), (expression,))

    @contextmanager
    def beside(self) -> Iterator[Compiler]:
        self.n_beside += 1
        yield self
        self.n_stopped += 1


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_instances_are_compiled_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE_S)  # releases three threads together
    fake = Fake(lambda expression: void(meeting.wait()))
    assert set(compile_some(fake, 6, 3)) == {f"f<{i}>" for i in range(6)}
    assert len(set(fake.threads.values())) == 3
    assert (fake.n_beside, fake.n_stopped) == (2, 2)


def void(_: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("n_instances", "n_at_once", "n_beside"),
    [(1, 8, 0), (2, 8, 0), (3, 8, 1), (4, 8, 1), (9, 8, 4), (100, 8, 7), (100, 1, 0)],
)
def test_the_number_of_compilers_depends_on_the_number_of_instances(
    n_instances: int, n_at_once: int, n_beside: int
) -> None:
    fake = Fake()
    assert len(compile_some(fake, n_instances, n_at_once)) == n_instances
    assert fake.n_beside == n_beside


def test_a_single_compiler_compiles_in_order_in_the_calling_thread() -> None:
    fake = Fake()
    compile_some(fake, 4, 1)
    assert list(fake.threads) == ["f<0>", "f<1>", "f<2>", "f<3>"]
    assert set(fake.threads.values()) == {threading.current_thread()}


@pytest.mark.parametrize("n_at_once", [1, 3])
def test_an_error_affects_only_its_instance(n_at_once: int) -> None:
    def fail(expression: str) -> None:
        if expression in {"f<1>", "f<4>"}:
            raise KernelError(f"cannot compile {expression}")

    outcomes = compile_some(Fake(fail), 6, n_at_once)
    for expression, outcome in outcomes.items():
        if expression in {"f<1>", "f<4>"}:
            assert str(outcome) == f"cannot compile {expression}"
        else:
            assert outcome == Image(expression.encode(), (expression,))


def test_each_image_is_saved_as_soon_as_it_is_compiled() -> None:
    kept = []

    def fail(expression: str) -> None:
        if expression == "f<2>":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_all(Fake(fail), instances(4), 1, lambda instance, image: kept.append(instance))
    assert kept == instances(2)


def test_an_interrupt_stops_the_other_compilers_before_their_next_instance() -> None:
    stopped = threading.Event()

    class Interrupted(Fake):
        @contextmanager
        def beside(self) -> Iterator[Compiler]:
            try:
                yield self
            finally:
                stopped.set()

    main = threading.current_thread()
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def wait_or_interrupt(expression: str) -> None:
        both.wait()
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        ended.append(stopped.wait(PATIENCE_S))

    ended: list[bool] = []
    fake = Interrupted(wait_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        compile_some(fake, 50, 2)
    assert ended == [True]
    assert len(fake.threads) == 2


class Lost(Fake):
    """A compiler whose process cannot be started, immediately or at its first instance."""

    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once

    @contextmanager
    def beside(self) -> Iterator[Compiler]:
        if self.at_once:
            raise CompilerLostError("no room")
        yield _Gone()


class _Gone(Fake):
    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        raise CompilerLostError("no room")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_warning_is_issued_and_one_compiler_is_used_if_no_process_can_be_started(
    at_once: bool,
) -> None:
    fake = Lost(at_once)
    with pytest.warns(
        RuntimeWarning, match=r"sequentially, since no additional compiler .*: no room"
    ):
        outcomes = compile_some(fake, 6, 3)
    assert len(outcomes) == 6
    assert set(fake.threads.values()) == {threading.current_thread()}


# NVRTC


def children() -> set[str]:
    """Return the ids of the child processes of this process, including zombies."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


BROKEN = Source("broken.cu", "template <typename T> __global__ void f(T* x) { *x = absent; }", ())


def test_nvrtc_in_a_child_process_returns_the_same_images_and_errors() -> None:
    here = Nvrtc()
    before = children()
    with here.beside() as beside:
        assert len(children() - before) == 1
        assert beside.version == here.version
        both = [n.compile(SOURCE, ["f<1>", "f<2>"], "sm_90") for n in (here, beside)]
        assert both[0] == both[1]
        for compiler in (here, beside):
            with pytest.raises(KernelError) as caught:
                compiler.compile(BROKEN, ["f<float>"], "sm_90")
            both.append(str(caught.value))
        assert both[2] == both[3]
        assert "broken.cu: nvrtc" in both[2]
    assert children() == before


def test_the_error_for_a_crashed_process_names_the_kernel() -> None:
    before = children()
    with Nvrtc().beside() as beside:
        assert beside.compile(SOURCE, ["f<1>"], "sm_90")
        (process,) = children() - before
        os.kill(int(process), signal.SIGKILL)
        with pytest.raises(
            KernelError,
            match=r"f\.cu: the process that compiled f<2> must answer, got exit status -9; set "
            "OPWRIGHT_NUM_THREADS=1 to compile in this process",
        ):
            beside.compile(SOURCE, ["f<2>"], "sm_90")


@pytest.mark.parametrize(
    ("executable", "reason"),
    [
        ("/absent/python", "FileNotFoundError"),
        ("/bin/true", "the process ended with exit status 0"),
        (None, "a Python executable must be available, got None"),
    ],
)
def test_without_a_python_executable_nvrtc_compiles_in_this_process(
    executable: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "get_executable", lambda: executable)
    with pytest.warns(RuntimeWarning, match=reason):
        outcomes = compile_some(Nvrtc(), 3, 2)
    assert all(isinstance(outcome, Image) for outcome in outcomes.values())


def test_a_different_nvrtc_version_in_the_child_is_refused() -> None:
    here = Nvrtc()
    here.version = "nvrtc 1.0"
    with here.beside() as beside, pytest.raises(CompilerLostError, match="got nvrtc 13"):
        beside.compile(SOURCE, ["f<1>"], "sm_90")


def test_a_compiler_process_does_not_import_opwright_or_numpy() -> None:
    script = (
        "import sys; from opwright_cuda.compile import nvrtc_program; "
        "from cuda.bindings import nvrtc; "
        "print(*{'numpy', 'opwright'} & sys.modules.keys())"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert answer.stdout.split() == []


PARENT = """
import os
from opwright_cuda.compile.nvrtc import Nvrtc
manager = Nvrtc().beside()
beside = manager.__enter__()
beside._begin()
os._exit(1)
"""


def test_the_compiler_of_a_killed_process_is_also_stopped() -> None:
    # Both processes write errors to one pipe, so the call returns only after both have exited.
    command = [sys.executable, "-c", PARENT]
    answer = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (answer.returncode, answer.stderr) == (1, b"")
