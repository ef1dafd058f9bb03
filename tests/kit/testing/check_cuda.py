"""Runs the conformance kit on opwright-cuda with the emulated GPU.

``python tests/kit/testing/check_cuda.py [arguments of opwright check]``. A first
run with kernels that do nothing determines which kernels the samples need. The needed kernels are
compiled together, as in the tests.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import opwright as ow
from emulated_gpu import Collector, compile_together
from opwright.cli import main
from opwright.registry import KernelRegistry
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain
from opwright_cuda_emulator import HostCompiler, start

PACKAGE = "opwright-cuda"
IN_PROCESS = ["--in-process"]
"""The emulated GPU and the context without TF32 exist only in this process."""

COLLECTING = ["--rule", "refusals", "--rule", "shape-rule"]
"""Rules that run every sample once."""


def exact_context() -> ow.Context:
    """Return a Context that excludes the kernels that refuse to compute without TF32.

    If rounding to TF32 were allowed, products and convolutions would differ from NumPy's results.
    """
    context = ow.Context.discover()
    every, context.kernels = context.kernels, KernelRegistry(context.ops, context.report)
    for registration, package in every.registrations():
        if registration.library != "cudnn_tf32":
            context.kernels.enter([registration], package)
    return context


def check(folder: Path, words: list[str]) -> int:
    """Return the exit code of ``opwright check opwright-cuda`` with these arguments."""
    start(folder, ("-O1",))
    compiler = HostCompiler(folder, ("-O1",))
    collector = Collector(compiler)
    before = replace_toolchain(collector)
    subject = words[words.index("--subject") :][:2] if "--subject" in words else []
    # Kernels prepared now must not be reused later, so they are prepared in a separate Context.
    with ow.context_guard(exact_context()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(["check", PACKAGE, *IN_PROCESS, *COLLECTING, *subject])
    replace_toolchain(before)
    compile_together(collector.wanted, compiler)
    replace_toolchain(Toolchain(compiler))
    with ow.context_guard(exact_context()):
        return main(["check", PACKAGE, *IN_PROCESS, *words])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(os.environ.get("OPWRIGHT_EMULATOR_DIR", temporary))
        sys.exit(check(place, sys.argv[1:]))
