"""Runs samples of the CUDA kernels, compiled with a sanitizer.

``run_samples.py FOLDER SANITIZER choose WHICH`` compiles samples and prints their names; it runs
without the sanitizer library. WHICH is "operators" for the largest case of every operator, or
"kernels" for a small subset that launches every kernel at least once.

``run_samples.py FOLDER SANITIZER run NAME...`` prints each sample before it is run; the process
exits at the first sanitizer report.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

os.environ.pop("LD_PRELOAD", None)  # only this process needs it, not the compilers
CUDA = Path(__file__).parents[1]
sys.path[:0] = [str(CUDA), str(CUDA.parent / "support"), str(CUDA.parent / "std" / "operators")]

from direct_launch import Launcher, prepare  # noqa: E402
from samples import OURS, Call, Sample, make_call, metas_of, plan_calls, samples  # noqa: E402

from emulated_gpu import Collector, compile_together  # noqa: E402
from opwright.kernel import Refuse  # noqa: E402
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain  # noqa: E402
from opwright_cuda_emulator import HostCompiler, start  # noqa: E402
from sanitized_kernels import FLAGS  # noqa: E402

DTYPES = ("float16", "float32", "int64")
"""The dtypes in order of preference; 16-bit types are the most error-prone with vectors."""


def one_of_each() -> list[tuple[Sample, Call]]:
    """Return one sample of each operator, and several samples of plan-only operators."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples():
        if sample.library in OURS:
            found.setdefault((sample.op_type, sample.library), []).append(sample)
    chosen = []
    for listed in found.values():
        dtypes = {sample.dtype: sample for sample in listed}
        sample = next((dtypes[d] for d in DTYPES if d in dtypes), listed[0])
        chosen.append((sample, make_call(sample.op_type, sample.dtype)))
    return [*chosen, *plan_calls()]


def is_refused(sample: Sample, called: Call) -> bool:
    """Return whether the kernel refuses a sample, for example because of its activation."""
    try:
        prepare(sample, called, metas_of(sample, called))
    except Refuse:
        return True
    return False


def templates_of(sample: Sample, called: Call, compiler: HostCompiler) -> set[tuple[str, str]]:
    """Return the file and name of each template that a sample launches."""
    collector = Collector(compiler)
    replace_toolchain(collector)
    prepare(sample, called, metas_of(sample, called))
    return {
        (source.name, expression.partition("<")[0])
        for source, expressions in collector.wanted.items()
        for expression in expressions
    }


def compile_samples(
    chosen: list[tuple[Sample, Call]], plain: HostCompiler, compiler: HostCompiler
) -> None:
    """Compile the kernels of samples that are not on disk yet."""
    collector = Collector(plain)
    replace_toolchain(collector)
    for sample, called in chosen:
        prepare(sample, called, metas_of(sample, called))
    compile_together(collector.wanted, compiler)


def choose(folder: Path, sanitizer: str, which: str) -> None:
    """Compile the chosen samples and print their names."""
    start(folder, FLAGS["none"])
    plain, compiler = (HostCompiler(folder, FLAGS[name]) for name in ("none", sanitizer))
    replace_toolchain(Collector(plain))  # finds refusals without compiling
    chosen = [pair for pair in one_of_each() if not is_refused(*pair)]
    if which == "kernels":
        needed = fewest({s: templates_of(s, c, plain) for s, c in chosen})
        chosen = [(s, c) for s, c in chosen if s in needed]
    compiler.build_driver()
    compile_samples(chosen, plain, compiler)
    print(*(sample for sample, _ in chosen), sep="\n")


def run(folder: Path, sanitizer: str, *names: str) -> None:
    """Run the named samples."""
    start(folder, FLAGS[sanitizer])
    compiler = HostCompiler(folder, FLAGS[sanitizer])
    found = [sample for sample in samples() if str(sample) in names]
    chosen = [(sample, make_call(sample.op_type, sample.dtype)) for sample in found]
    chosen += [(sample, called) for sample, called in plan_calls() if str(sample) in names]
    compile_samples(chosen, compiler, compiler)
    replace_toolchain(Toolchain(compiler))
    launcher = Launcher()
    for sample, called in chosen:
        print(sample, flush=True)
        with suppress(NotImplementedError):  # cuBLASLt products are not opwright kernels
            launcher.run(sample, called)
    print(f"{len(chosen)} samples", flush=True)


def fewest(templates: dict[Sample, set[tuple[str, str]]]) -> set[Sample]:
    """Return a small set of samples that together launch every template."""
    missing = set().union(*templates.values())
    chosen = set()
    while missing:
        best = max(templates, key=lambda sample: (len(templates[sample] & missing), str(sample)))
        chosen.add(best)
        missing -= templates[best]
    return chosen


if __name__ == "__main__":
    _, folder, sanitizer, command, *rest = sys.argv
    {"choose": choose, "run": run}[command](Path(folder), sanitizer, *rest)
