"""Only the kernels of a plan are compiled, all together at the end of lowering.

The compiler is fake: it returns the image of an empty kernel for every instance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training import digits_batches, make_digits_model

import opwright as ow
from opwright.errors import KernelError
from opwright_cuda import native
from opwright_cuda.compile.compiler import Compiler, Image
from opwright_cuda.compile.image_cache import ImageCache
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain
from opwright_cuda.source import Source
from opwright_cuda_emulator import HostCompiler

PATIENCE_S = 600
NOTHING = Source("nothing.cu", '#include "shim.h"\n__global__ void nothing() {}')


class Fake:
    """A compiler that records instances, calls `before`, and always returns the same image."""

    version = "fake 1"

    def __init__(self, image: Image) -> None:
        self.image = image
        self.before: Callable[[str], None] = lambda expression: None
        self.compiled: list[str] = []

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        (expression,) = expressions
        self.compiled.append(expression)
        self.before(expression)
        return self.image

    def beside(self) -> AbstractContextManager[Compiler]:
        return nullcontext(self)


@pytest.fixture
def fake(
    gpu: object, emulator_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fake]:
    """Provide a fake compiler with an image cache, and set the number of threads to 2."""
    if gpu is None:
        pytest.skip("a GPU cannot run the images of the fake compiler")
    made = Fake(HostCompiler(emulator_folder).compile(NOTHING, ["nothing"], "sm_90"))
    monkeypatch.setattr(native, "parameter_sizes", lambda handle: None)
    before = replace_toolchain(Toolchain(made, ImageCache(tmp_path)))
    n_threads = ow.get_num_threads()
    ow.set_num_threads(2)
    with ow.context_guard(ow.Context.discover()):
        yield made
    ow.set_num_threads(n_threads)
    replace_toolchain(before)


def start_anew(fake: Fake, folder: Path) -> None:
    """Drop all caches except the disk cache, as in a new process."""
    replace_toolchain(Toolchain(fake, ImageCache(folder)))
    ow.current_context().prepared.clear()


def run(*types: str, passes: Sequence[str] = ()) -> Any:
    """Run a chain of operators of the given types."""
    block = ow.Program().global_block()
    block.create_var("x", (4,), "float32")
    name = "x"
    for op_type in types:
        (name,) = block.append_op(op_type, {"x": name}, {}).output("out")
    call = ow.Network(block).compile(feed=["x"], fetch=[name], device="cuda", passes=list(passes))
    return call(x=np.ones(4, np.float32))[0]


def test_each_instance_of_a_training_plan_is_compiled_once(fake: Fake) -> None:
    model, _ = make_digits_model("cuda")
    images, labels = digits_batches(1)[0]
    model.fill("img", images)
    model.fill("label", labels)
    model.run()
    assert len(fake.compiled) == len(set(fake.compiled)) > 5


def test_instances_of_a_plan_are_compiled_at_the_same_time(fake: Fake) -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)  # no thread continues alone
    fake.before = lambda expression: assert_is_index(meeting.wait())
    run("relu", "sigmoid", "tanh", "exp")
    assert len(fake.compiled) == 4


def assert_is_index(i: int) -> None:
    assert i in {0, 1}


def test_another_process_loads_the_instances_from_disk(fake: Fake, tmp_path: Path) -> None:
    run("relu", "sigmoid", "tanh", "exp")
    start_anew(fake, tmp_path)
    run("tanh", "exp")
    run("relu", "tanh", "sigmoid")
    assert len(fake.compiled) == 4


def test_fused_operators_are_compiled_instead_of_the_operators_that_they_replace(
    fake: Fake,
) -> None:
    run("relu", "sigmoid", "tanh", passes=["fuse_elementwise"])
    assert len(fake.compiled) == 1


def test_kernels_of_an_invalid_plan_are_not_compiled(fake: Fake) -> None:
    with pytest.raises(LookupError, match="nonzero"):
        run("relu", "nonzero")
    assert fake.compiled == []


@pytest.mark.parametrize("wrong", ["Sigmoid", "Exp"])
def test_an_error_in_one_instance_names_its_operator_and_keeps_the_other_images(
    fake: Fake, wrong: str, tmp_path: Path
) -> None:
    def fail(expression: str) -> None:
        if wrong in expression:
            raise KernelError(f"elementwise.cu: fake 1 cannot compile {expression} with -o:\nlog")

    fake.before = fail
    types = ["relu", "sigmoid", "tanh", "exp"]
    number = types.index(wrong.lower())
    for _ in range(2):
        with pytest.raises(KernelError) as caught:
            run(*types)
        text = str(caught.value)
        assert text.startswith(f"{wrong.lower()}[cuda, float32, native] of opwright-cuda")
        assert f"prepare failed for operator {number}, got elementwise.cu: fake 1 cannot" in text
        assert f"{wrong}<float>" in text
        assert "with -o:\nlog" in text
    assert len(list(tmp_path.iterdir())) == 3
    assert len(fake.compiled) == 4 + 1
    fake.before = lambda expression: None
    run(*types)
    assert len(fake.compiled) == 4 + 2


def test_an_interrupt_leaves_no_thread_temporary_file_or_plan(fake: Fake, tmp_path: Path) -> None:
    main, interrupted = threading.current_thread(), threading.Event()

    def interrupt(expression: str) -> None:
        if threading.current_thread() is main:
            interrupted.set()
            raise KeyboardInterrupt
        assert interrupted.wait(PATIENCE_S)  # keeps work for the other thread

    fake.before = interrupt
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run("relu", "sigmoid", "tanh", "exp")
    assert threading.active_count() == before
    assert all(file.suffix == ".image" for file in tmp_path.iterdir())
    fake.before = lambda expression: None
    assert run("relu", "sigmoid", "tanh", "exp").shape == (4,)


def test_threads_that_lower_the_same_plan_compile_it_once(fake: Fake) -> None:
    begin = threading.Barrier(4, timeout=PATIENCE_S)
    context = ow.current_context()
    shapes = []

    def lower() -> None:
        with ow.context_guard(context):
            begin.wait()
            shapes.append(run("relu", "sigmoid", "tanh").shape)

    threads = [threading.Thread(target=lower) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shapes == [(4,)] * 4
    assert len(fake.compiled) == 3
