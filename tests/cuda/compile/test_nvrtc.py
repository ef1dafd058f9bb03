"""NVRTC compiles the kernels for three architectures, in two releases.

Compiling an instance takes a tenth of a second, and the emulator compiles all instances anyway.
These tests therefore compile only one instance of each template, and vary its types between
architectures and releases. Passes append the source of fused chains to elementwise.cu; each such
source is compiled once. Only `make test-all` runs these tests. OPWRIGHT_TEST_EVERY_INSTANCE=1
compiles all instances for all architectures; this takes a quarter of an hour.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from direct_launch import prepare
from one_operator import dispatch_dtype
from samples import Call, Sample, counts_of, make_call, metas_of, samples
from table import load_cases

import opwright as ow
import opwright_cuda
from emulated_gpu import Collector, wanted_by_tests
from every_case import EVERY
from opwright.errors import KernelError
from opwright.kernel import Refuse
from opwright_cuda.compile.nvrtc import OPTIONS, Nvrtc
from opwright_cuda.compile.toolchain import replace_toolchain
from opwright_cuda.source import Source, own_source
from opwright_cuda_emulator import HostCompiler

HERE = Path(__file__).parent
OLDEST = Path(sys.prefix) / "nvrtc-13.0" / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
ALL = bool(os.environ.get("OPWRIGHT_TEST_EVERY_INSTANCE"))
CHUNK = 30
PARTS = 6
"""The number of combinations of architecture and NVRTC release."""
FILES = {path.name for path in Path(opwright_cuda.__file__).with_name("cu").glob("*.cu")}
NOT_IN_TABLE = {"bias_activation_grad.cu", "layer_grads.cu", "unfold.cu"}
"""Files for plan-only operators and large convolutions, whose own tests have compiled them."""


class Job(NamedTuple):
    source: Source
    expressions: list[str]
    arch: str


def table_calls() -> Iterator[tuple[Sample, Call]]:
    """Yield every sample, and every case in the operator table in every dtype."""
    for sample in samples():
        yield sample, make_call(sample.op_type, sample.dtype)
    kernels = ow.current_context().kernels
    for case in load_cases():
        for dtype in case.dtypes:
            arrays = case.make_inputs(dtype)
            chosen = dispatch_dtype(case, dtype)
            for library in kernels.libraries_of(case.op):
                entries = [e for e in kernels.entries(case.op) if e.library == library]
                if any(e.device == "cuda" and e.dtype in {chosen, "*"} for e in entries):
                    call = Call(arrays, dict(case.attrs), counts_of(case))
                    yield Sample(case.op, chosen, library), call


@pytest.fixture(scope="module")
def wanted(gpu: object, emulator_folder: Path) -> dict[Source, list[str]]:
    """Return the expressions of all kernel instances by source."""
    collector = Collector(HostCompiler(emulator_folder))
    before = replace_toolchain(collector)
    # If the tests of the operator table run in this session, they have compiled all its cases.
    known = {source.name for source in wanted_by_tests}
    for sample, call in () if known >= FILES - NOT_IN_TABLE else table_calls():
        try:
            prepare(sample, call, metas_of(sample, call))
        except Refuse:
            continue
    replace_toolchain(before)
    for source, names in wanted_by_tests.items():
        collector.wanted.setdefault(source, set()).update(names)
    return {
        source: sorted(names) for source, names in collector.wanted.items() if source.name in FILES
    }


def chunks(source: Source, expressions: list[str], arch: str) -> Iterator[Job]:
    for i in range(0, len(expressions), CHUNK):
        yield Job(source, expressions[i : i + CHUNK], arch)


def some(wanted: dict[Source, list[str]], arch: str, part: int) -> Iterator[Job]:
    """Yield jobs that compile one instance of each template, for one of the `PARTS`."""
    made = [source for source in wanted if source.text != own_source(source.name).text]
    for source, expressions in wanted.items():
        if not ALL and source in made and made.index(source) % PARTS != part:
            continue
        templates: dict[str, list[str]] = {}
        for expression in expressions:
            templates.setdefault(expression.partition("<")[0], []).append(expression)
        chosen = [names[part * len(names) // PARTS] for names in templates.values()]
        yield from chunks(source, expressions if ALL else sorted(chosen), arch)


def compile_all(folder: Path, jobs: Iterable[Job], library: Path | None = None) -> set[str]:
    """Compile jobs in two processes; return their NVRTC versions, or fail with the errors."""
    listed = sorted(jobs, key=lambda job: -len(job.expressions))

    def compile_part(i: int) -> list[str]:
        file = folder / f"jobs-{i}"
        file.write_bytes(pickle.dumps([tuple(job) for job in listed[i::2]]))
        command = [sys.executable, str(HERE / "compile_instances.py"), str(file)]
        command += [] if library is None else [str(library)]
        environ = dict(os.environ)
        if library is not None:
            environ["LD_LIBRARY_PATH"] = str(library.parent)  # for the libraries that NVRTC opens
        finished = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.splitlines()

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(compile_part, range(2)))
    failed = [line for version, *rest in parts for line in rest]
    assert not failed, "\n".join(failed)
    return {version for version, *_ in parts}


@pytest.mark.long("it compiles every template of a kernel by a release of NVRTC")
@pytest.mark.timeout(1800)
def test_the_newest_nvrtc_compiles_every_template(
    wanted: dict[Source, list[str]], tmp_path: Path
) -> None:
    assert sum(map(len, wanted.values())) > 500
    assert {source.name for source in wanted} >= FILES - NOT_IN_TABLE
    parts = {"sm_80": 0, "sm_90": 2, "sm_100": 4} if EVERY or ALL else {"sm_100": 4}
    jobs = [job for arch, part in parts.items() for job in some(wanted, arch, part)]
    (version,) = compile_all(tmp_path, jobs)
    assert int(version.rpartition(".")[2]) >= 5, version


@pytest.mark.long("it compiles every template of a kernel by a release of NVRTC")
@pytest.mark.timeout(1800)
def test_the_oldest_nvrtc_compiles_every_template(
    wanted: dict[Source, list[str]], tmp_path: Path
) -> None:
    assert OLDEST.exists(), f"{OLDEST}: `make test` installs it"
    parts = {"sm_80": 1, "sm_90": 3, "sm_100": 5} if EVERY or ALL else {"sm_80": 1}
    jobs = [job for arch, part in parts.items() for job in some(wanted, arch, part)]
    assert compile_all(tmp_path, jobs, OLDEST) == {"nvrtc 13.0"}


@pytest.mark.grid(4)
@pytest.mark.parametrize(
    ("file", "kernels"),
    [
        pytest.param("softmax.cu", ["softmax_lines", "log_softmax_lines"], id="softmax"),
        pytest.param("losses.cu", ["class_loss_lines", "class_loss_and_grad_lines"], id="losses"),
    ],
)
@pytest.mark.parametrize("library", [None, OLDEST], ids=["newest", "oldest"])
def test_kernels_for_long_lines_of_doubles_do_not_spill_registers(
    library: Path | None, file: str, kernels: list[str], tmp_path: Path
) -> None:
    """Compile kernels for long lines, which the operator table does not contain."""
    lines = ["StreamedLine<TileTeam, double, 1>", "StreamedLine<BlockTeam, double, 2>"]
    expressions = [f"{kernel}<{line}, double>" for kernel in kernels for line in lines]
    jobs = [Job(own_source(file), expressions, arch) for arch in ("sm_90", "sm_100")]
    compile_all(tmp_path, jobs, library)


def test_a_kernel_that_fails_to_compile_shows_log_file_instance_and_options() -> None:
    source = Source(
        "broken.cu", "template <typename T> __global__ void f(T* x) { *x = absent; }", ()
    )
    with pytest.raises(KernelError) as caught:
        Nvrtc().compile(source, ["f<float>"], "sm_90")
    text = str(caught.value)
    assert re.search(r"broken\.cu: nvrtc 13\.\d+ cannot compile f<float> with -arch=sm_90", text)
    assert " ".join(OPTIONS) in text
    assert 'broken.cu(1): error: identifier "absent" is undefined' in text


def test_gpu_specific_mistakes_are_detected_without_a_gpu() -> None:
    text = """__global__ void f(float* x) {
      __shared__ float much[100000];
      much[threadIdx.x] = x[0];
      __syncthreads();
      x[threadIdx.x] = much[threadIdx.x + 1];
    }"""
    with pytest.raises(KernelError, match="uses too much shared data"):
        Nvrtc().compile(Source("large.cu", text), ["f"], "sm_90")


def test_compiler_options_do_not_flush_denormals_or_use_fast_math() -> None:
    assert not any("ftz" in option or "fast" in option for option in OPTIONS)
