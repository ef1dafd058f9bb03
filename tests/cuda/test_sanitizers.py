"""The kernels themselves are clean under AddressSanitizer, UBSan and ThreadSanitizer.

Every array has memory of its own, so that an overrun by one element is one. As few operators as
launch every kernel once are enough here; ``make sanitize`` runs all of them under AddressSanitizer.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sanitized import FLAGS, run_python

from opwright_cuda.emulator import HostCompiler

HERE = Path(__file__).parent
WHICH = "operators" if os.environ.get("OPWRIGHT_SANITIZE_ALL") == "1" else "kernels"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("sanitizer", "order", "which"),
    [("address", "random", WHICH), ("thread", "threads", "kernels")],
)
def test_kernels_are_clean(emulator_folder: Path, sanitizer: str, order: str, which: str) -> None:
    compiler = HostCompiler(emulator_folder, FLAGS[sanitizer])
    arguments = (HERE / "run_samples.py", emulator_folder, sanitizer, which)
    done = run_python(compiler, sanitizer, arguments, {"OPWRIGHT_EMULATOR_ORDER": order})
    said = f"{done.stdout[-500:]}\n{done.stderr[:6000]}"
    assert done.returncode == 0, said
    assert int(done.stdout.splitlines()[-1].split()[0]) > 30, said
