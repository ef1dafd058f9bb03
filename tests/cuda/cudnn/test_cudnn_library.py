"""A missing or unsuitable cuDNN raises an error instead of aborting; each test starts a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_driver import Machine, machine  # noqa: F401 - the fixture

CONVOLVE = """
from opwright_cuda import cudnn, native
driver = emulated()
{given}
one = np.ones((1, 1, 3, 3), np.float32)
with ow.context_guard(ow.Context.discover().with_pins({{"conv2d": "cudnn"}})):
    block = ow.Program().global_block()
    for name in ("x", "weight"):
        block.create_var(name, one.shape, "float32")
    block.append_op("conv2d", {{"x": ["x"], "weight": ["weight"]}}, {{"out": ["out"]}}, {{}})
    network = ow.Network(block)
    compiled = network.compile(feed=["x", "weight"], fetch=["out"], device="cuda")
    problem(compiled, x=one, weight=one)
works()
"""

ADVICE = 'pip install "opwright-cuda[cudnn]"'


def refusal(machine: Machine, given: str) -> str:  # noqa: F811
    """Return the error of a convolution for which only cuDNN is allowed."""
    said = machine.python(CONVOLVE.format(given=given))
    assert said.endswith("works\n")
    return said


def test_the_error_for_a_missing_library_names_its_package(machine: Machine) -> None:  # noqa: F811
    said = refusal(machine, "native.set_cudnn_path('libcudnn.so.absent')")
    assert 'cuDNN cannot be loaded, got "libcudnn.so.absent: cannot open' in said
    assert ADVICE in said


VERSION = "size_t cudnnGetVersion() { return 91900; }"
CUDA = "size_t cudnnGetCudartVersion() { return %d; }"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "cuDNN must be version 9.12 or newer, got {library} without cudnnGetVersion"),
        ("size_t cudnnGetVersion() { return 91002; }", "9.12 or newer, got 9.10"),
        ("size_t cudnnGetVersion() { return 8905; }", "9.12 or newer, got 8.9"),
        (VERSION + CUDA % 12080, "cuDNN must be built for CUDA 13, got one for CUDA 12"),
        (VERSION + CUDA % 13000, "got {library} without cudnnGetErrorString"),
    ],
)
def test_the_error_for_an_unsuitable_library_describes_the_library(
    machine: Machine,  # noqa: F811
    tmp_path: Path,
    source: str,
    reason: str,
) -> None:
    file, library = tmp_path / "cudnn.cc", tmp_path / "libcudnn.so.9"
    file.write_text(f'#include <cstddef>\nextern "C" {{ {source} }}\n')
    subprocess.run(["c++", "-shared", "-fPIC", str(file), "-o", str(library)], check=True)
    said = refusal(machine, f"native.set_cudnn_path({str(library)!r})")
    assert reason.format(library=library) in said
    assert ADVICE in said


def test_the_error_for_a_library_that_fails_to_start_contains_its_message(machine: Machine) -> None:  # noqa: F811
    said = refusal(machine, "driver.set('cudnn_starts', 0)")
    assert "cuDNN: its start failed with EMULATED_CUDNN_STATUS_1001: the emulator was told" in said


def test_the_library_in_the_wheel_takes_precedence_over_the_system_library(
    machine: Machine,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = tmp_path / "nvidia" / "cudnn" / "lib"
    folder.mkdir(parents=True)
    (folder / "libcudnn.so.9").write_text("")
    script = """
    import sys
    from opwright_cuda.cudnn import library
    assert library._find_library() == "libcudnn.so.9"
    sys.path.insert(0, FOLDER)
    sys.modules.pop("nvidia", None)
    print(library._find_library())
    """.replace("\n    ", "\n").replace("FOLDER", repr(str(tmp_path)))
    assert machine.python(script).strip() == str(folder / "libcudnn.so.9")


def test_cublaslt_is_loaded_before_cudnn_because_cudnn_would_otherwise_abort(
    machine: Machine,  # noqa: F811
) -> None:
    script = """
    from opwright_cuda import native
    from opwright_cuda.cudnn import library
    from opwright.errors import PluginError
    asked = []
    def missing():
        asked.append(True)
        raise PluginError("no cuBLASLt")
    library.tell_blas_path = missing
    native.cudnn_version = lambda: 1 / 0
    print(library.find_refusal(), library.find_refusal(), len(asked))
    """.replace("\n    ", "\n")
    said = f"cuDNN needs cuBLASLt, which is not found; {ADVICE}"
    assert machine.python(script) == f"{said} {said} 1\n"


EXPLAIN = """
from opwright_cuda import native
emulated()
{given}
allowed = ow.current_context().with_options({{"cuda.allow_tf32": {tf32}}})
for candidate in ow.explain("conv2d", "cuda", "float32", context=allowed).candidates:
    print(candidate.entry.library, candidate.verdict, candidate.reason)
"""


def test_explain_reports_a_missing_library_before_a_plan_is_built(machine: Machine) -> None:  # noqa: F811
    said = machine.python(
        EXPLAIN.format(given="native.set_cudnn_path('libcudnn.so.absent')", tf32=False)
    )
    assert "native chosen \n" in said
    assert 'cudnn rejected would refuse: cuDNN cannot be loaded, got "libcudnn.so.absent' in said
    assert ADVICE in said


def test_explain_names_the_kernels_that_need_tf32(machine: Machine) -> None:  # noqa: F811
    said = machine.python(EXPLAIN.format(given="", tf32=False))
    assert "cudnn chosen \n" in said
    assert "cudnn_tf32 rejected would refuse: float32 is not rounded to TF32; the option " in said
    said = machine.python(EXPLAIN.format(given="", tf32=True))
    assert "cudnn_tf32 chosen \n" in said
