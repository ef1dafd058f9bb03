"""AddressSanitizer, UBSan and ThreadSanitizer do not report errors in the kernels.

Every array has separate memory, so an overrun by one element is detected. These tests run a
small set of operators that launches every kernel at least once; ``make sanitize`` runs all
operators.
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
def test_sanitizers_do_not_report_errors_in_kernels(emulator_folder: Path, sanitizer: str) -> None:
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
