"""The kernels themselves are clean under AddressSanitizer, UBSan and ThreadSanitizer.

Every array has separate memory, so that an overrun by one element is detected. As few operators as
launch every kernel once are enough here; ``make sanitize`` runs all of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opwright_cuda_emulator import HostCompiler
from sanitized_kernels import FLAGS, run_python

HERE = Path(__file__).parent
WHICH = "operators" if os.environ.get("OPWRIGHT_SANITIZE_ALL") == "1" else "kernels"


@pytest.mark.long("it compiles every kernel once more for each sanitizer")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_kernels_are_clean(emulator_folder: Path, sanitizer: str) -> None:
    compiler = HostCompiler(emulator_folder, FLAGS[sanitizer])
    script = (HERE / "run_samples.py", emulator_folder, sanitizer)
    chosen = run_python(compiler, "none", (*script, "choose", WHICH))
    assert chosen.returncode == 0, chosen.stderr
    names = chosen.stdout.split()
    assert len(names) > 30
    environ = {"OPWRIGHT_EMULATOR_ORDER": "random"}
    done = run_python(compiler, sanitizer, (*script, "run", *names), environ)
    said = f"{done.stdout[-500:]}\n{done.stderr[:6000]}"
    assert done.returncode == 0, said
    assert done.stdout.endswith(f"{len(names)} samples\n"), said
