"""With an MPI library other than the wheel `mpich`, results are bitwise identical."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.grid(6)

SUMS = """
import hashlib
import numpy as np
import opwright as ow
import opwright_dist as dist

bits = hashlib.sha256()
for size in (3, 1000, 100_003, 1_000_000):
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        own = np.random.default_rng(dist.rank()).normal(size=size)
        own = own.astype(ow.op.dtype_to_numpy(dtype))
        for reduce in ("sum", "mean"):
            bits.update(ow.ops.dist.all_reduce(own, reduce=reduce).tobytes())
print(bits.hexdigest())
"""


@pytest.fixture
def intel_mpi() -> Path:
    """Return the library in the wheel `impi-rt`."""
    try:
        files = distribution("impi-rt").files or []
    except PackageNotFoundError:
        pytest.skip("Intel MPI is not installed: pip install --no-deps impi-rt==2021.18.1")
    (path,) = (file.locate() for file in files if file.name == "libmpi_abi.so.1")
    return Path(path).resolve(strict=True)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("shared_memory", ["1", "0"])
def test_sums_are_bitwise_identical_with_both_mpi_libraries(
    run, monkeypatch: pytest.MonkeyPatch, intel_mpi: Path, ranks: int, shared_memory: str
) -> None:
    monkeypatch.setenv("OPWRIGHT_MPI_SHARED_MEMORY", shared_memory)
    usual = run(SUMS, ranks)
    monkeypatch.setenv("OPWRIGHT_MPI_LIBRARY", str(intel_mpi))
    other = run(SUMS, ranks)
    assert (usual.returncode, other.returncode) == (0, 0), usual.stderr + other.stderr
    words = {line.split()[1] for line in (usual.stdout + other.stdout).splitlines()}
    assert len(words) == 1
