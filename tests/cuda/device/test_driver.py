"""Missing libraries and failed operations are reported; each test starts a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opwright_cuda_emulator import HostCompiler

HERE = Path(__file__).parent


class Machine:
    """Starts processes that use the emulated driver."""

    def __init__(self, folder: Path) -> None:
        self.driver = HostCompiler(folder).build_driver()

    def python(self, script: str, status: int = 0, **environ: str) -> str:
        """Run a script; return its output."""
        env = {
            **os.environ,
            "PYTHONPATH": str(HERE),
            "PYTHONWARNINGS": "always",
            **environ,
        }
        command = [sys.executable, "-c", f"from cuda_process import *\n{script}"]
        finished = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert finished.returncode == status, finished.stderr
        return finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def machine(emulator_folder: Path) -> Machine:
    return Machine(emulator_folder)


def test_the_error_for_a_missing_driver_suggests_a_remedy(machine: Machine, tmp_path: Path) -> None:
    absent = tmp_path / "libcuda.so.1"
    said = machine.python("problem(works)", OPWRIGHT_CUDA_DRIVER=str(absent))
    assert f"NVIDIA's driver is not installed here, got \"{absent}: cannot open" in said
    assert 'install driver 580 or newer, or run on device="cpu"' in said


def test_the_error_for_an_old_driver_contains_its_version(machine: Machine) -> None:
    said = machine.python("emulated(); problem(works)", OPWRIGHT_EMULATOR_VERSION="12040")
    assert "the driver must support CUDA 13.0 or newer, got 12.4" in said
    assert "update NVIDIA's driver to 580 or newer" in said


def test_the_error_for_a_library_that_is_not_a_driver_names_the_missing_function(
    machine: Machine,
) -> None:
    said = machine.python("problem(works)", OPWRIGHT_CUDA_DRIVER="libm.so.6")
    assert "CUDA: the driver libm.so.6 has no cuInit" in said


def test_a_machine_without_a_gpu_is_reported(machine: Machine) -> None:
    said = machine.python("emulated().set('devices', 0); problem(works)")
    assert "CUDA: there is no GPU, though the driver is installed; see nvidia-smi" in said


def test_the_error_for_hidden_gpus_names_the_environment_variable(machine: Machine) -> None:
    said = machine.python("emulated(); problem(works)", CUDA_VISIBLE_DEVICES="")
    assert 'no GPU is visible, got CUDA_VISIBLE_DEVICES=""; unset it' in said


def test_an_unknown_gpu_index_raises(machine: Machine) -> None:
    said = machine.python("emulated(); problem(works, 'cuda:3'); works('cuda:0')")
    assert "the number of a device must be in [0, 1), got 3" in said
    assert "works" in said


def test_out_of_memory_reports_the_sizes_and_leaves_the_process_intact(machine: Machine) -> None:
    said = machine.python(
        """
        driver = emulated()
        works()
        driver.set("memory_bytes", 1 << 22)
        for _ in range(2):
            problem(run, "sigmoid", x=np.ones(1 << 21, np.float32))
            works()
        before = driver.count("allocations")
        problem(run, "sigmoid", x=np.ones(1 << 21, np.float32))
        works()
        assert driver.count("allocations") == before, (driver.count("allocations"), before)
        driver.set("memory_bytes", 1 << 30)
        assert run("sigmoid", x=np.ones(1 << 21, np.float32)).shape == (1 << 21,)
        """.replace("\n        ", "\n")
    )
    assert said.count("works") == 4
    assert "GPU 0 has no room for" in said
    assert "of 4194304 bytes are free" in said


def test_an_index_out_of_range_is_reported_and_memory_is_intact(machine: Machine) -> None:
    said = machine.python(
        """
        driver = emulated()
        x = np.arange(5, dtype=np.float32)
        for wrong in (9, -6):
            problem(run, "gather", x=x, index=np.array([1, wrong]))
            np.testing.assert_array_equal(run("gather", x=x, index=np.array([1, 4])), [1, 4])
        works()
        """.replace("\n        ", "\n")
    )
    assert "gather: index must be in [-5, 5), got 9" in said
    assert "gather: index must be in [-5, 5), got -6" in said
    assert said.endswith("works\n")


def test_the_error_in_a_blocking_run_names_the_failed_operator(machine: Machine) -> None:
    script = "emulated(); problem(run, 'gather', x=ONES, index=np.array([1, 9]))"
    usual = machine.python(script)
    blocking = machine.python(script, OPWRIGHT_CUDA_BLOCKING="1")
    assert "gather[cuda" in blocking
    assert "gather[cuda" not in usual  # the copy that waited for the GPU reported it


def test_the_error_for_a_lost_context_requires_a_restart(machine: Machine) -> None:
    said = machine.python(
        "driver = emulated(); works(); driver.set('sticky', 700)\n" + 2 * "problem(works)\n"
    )
    assert "failed with CUDA_ERROR_ILLEGAL_ADDRESS" in said
    assert said.count("this process cannot use it any more: restart it") == 2


def test_a_misaligned_access_destroys_the_context_as_on_a_gpu(machine: Machine) -> None:
    said = machine.python("emulated(); works(); print(launch_misaligned()); problem(works)")
    assert "\n716\n" in said
    assert "failed with CUDA_ERROR_MISALIGNED_ADDRESS (misaligned, block (0, 0, 0): thread" in said
    assert "this process cannot use it any more: restart it" in said


def test_a_product_without_cublaslt_reports_the_missing_library(machine: Machine) -> None:
    said = machine.python(
        """
        from opwright_cuda import native
        emulated()
        native.set_blas_path("libcublasLt.so.absent")
        square = np.ones((4, 4), np.float16)
        problem(run, "matmul", x=square, y=square)
        works()
        """.replace("\n        ", "\n")
    )
    assert "matrix products need cuBLASLt, got" in said
    assert "pip install nvidia-cublas" in said
    assert said.endswith("works\n")


TRIPWIRE = """
#include <cstdio>
#include <cstdlib>
__attribute__((constructor)) static void opened() {
  std::fclose(std::fopen(std::getenv("OPENED"), "w"));
}
"""


@pytest.fixture(scope="module")
def tripwire(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return environment variables that select a fake driver that writes a marker file."""
    folder = tmp_path_factory.mktemp("tripwire")
    (folder / "wire.cc").write_text(TRIPWIRE)
    library = folder / "libcuda.so.1"
    command = ["c++", "-shared", "-fPIC", str(folder / "wire.cc"), "-o", str(library)]
    subprocess.run(command, check=True)
    return {"OPWRIGHT_CUDA_DRIVER": str(library), "OPENED": str(folder / "opened")}


WITHOUT_CUDA = """
import sys
for name in ("cupy", "cuda", "cuda.bindings", "cuda.pathfinder"):
    sys.modules[name] = None  # makes its import fail
"""

USES = {
    "import": "import opwright, opwright_cuda, opwright_cuda.plugin, opwright_cuda.native",
    "discovery": "import opwright; opwright.Context.discover().kernels.entries('sigmoid')",
    "convolutions": "import opwright; opwright.explain('conv2d', 'cuda')",
    "kernels": "from opwright.cli import main; assert not main(['kernels'])",
    "explain": "from opwright.cli import main; assert not main(['kernels', 'sigmoid'])",
    "doctor": "from opwright.cli import main; assert not main(['doctor'])",
}


@pytest.mark.parametrize("use", USES)
def test_inspection_does_not_open_the_driver(
    machine: Machine, tripwire: dict[str, str], use: str
) -> None:
    script = f"{WITHOUT_CUDA}\n{USES[use]}\nprint('MAPS', open('/proc/self/maps').read())"
    _, maps = machine.python(script, **tripwire).rsplit("MAPS", 1)
    assert not Path(tripwire["OPENED"]).exists()
    assert not any(name in maps for name in ("libcuda", "libnvrtc", "libcublas", "libcudnn"))


def test_the_marker_file_is_written_if_the_driver_is_opened(
    machine: Machine, tripwire: dict[str, str]
) -> None:
    machine.python("problem(works)", **tripwire)
    opened = Path(tripwire["OPENED"])
    assert opened.exists()
    opened.unlink()
