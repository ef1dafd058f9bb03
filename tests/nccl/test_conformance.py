"""Runs the conformance kit on the NCCL kernels, in a single process on an emulated GPU."""

from __future__ import annotations

import json

from launching import run_python

CHECK = """
from opwright.cli import main

sys.exit(main(["check", "opwright-nccl", "--in-process", "--json"]))
"""


def test_the_conformance_kit_does_not_report_errors_in_the_kernels(emulated_library: str) -> None:
    done = run_python(CHECK, {"OPWRIGHT_DIST_ENGINE": "nccl"})
    assert done.stdout, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [found["message"] for result in results for found in result["findings"]] == []
    assert sum(result["state"] == "passed" for result in results) >= 100
