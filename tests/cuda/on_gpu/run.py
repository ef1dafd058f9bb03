"""Runs all tests that need a GPU in one command, without a registry: ``make test-cuda``.

``run.py`` runs all sections; ``run.py confirm operators`` runs only these sections. Each section
runs in separate processes, which are restarted after a crash and terminated at the deadline.
Results are in ``build/gpu``: ``results.txt`` is written continuously, ``summary.json`` after each
section, and the output of the processes is in ``parts``.

Without a GPU, the sections run in the emulator, and tests that need a real GPU are skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import install
from outcomes import Report, collect, read_progress, show, show_table, summarize

HERE = Path(__file__).parent
TABLE = "tests/std/operators"
KERNELS = "tests/cuda"
PARTS = install.BUILD / "parts"
"""The folder of the output and log of each process."""
MAX_STARTS = 12
"""The maximum number of processes per shard; each crash starts a new process."""


class Section(NamedTuple):
    """A named group of tests.

    Attributes
    ----------
    name, title : str
        Name on the command line, and title in reports.
    pytest : tuple of str
        Arguments of pytest.
    is_parted : bool
        Whether the section runs in several concurrent processes.
    environ : tuple of pairs
        Additional environment variables.
    command : tuple of str
        Program and arguments that precede the interpreter.
    """

    name: str
    title: str
    pytest: tuple[str, ...]
    is_parted: bool = False
    environ: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "confirm",
        "what was only believed of GPUs",
        (f"{KERNELS}/on_gpu/test_confirmation.py", f"{KERNELS}/on_gpu/test_arrays.py"),
    ),
    Section(
        "operators",
        "the operator table",
        (TABLE, f"--ignore={TABLE}/test_gradients.py"),
        is_parted=True,
    ),
    Section("gradients", "gradients", (f"{TABLE}/test_gradients.py",), is_parted=True),
    Section(
        "cudnn",
        "convolution by cuDNN",
        (f"{KERNELS}/cudnn/test_cudnn.py", f"{KERNELS}/cudnn/test_cudnn_tuning.py"),
    ),
    Section(
        "models",
        "models and graph replay",
        (f"{KERNELS}/on_gpu/test_training.py", f"{KERNELS}/test_models.py"),
    ),
    Section("nccl", "collectives by NCCL", ("tests/nccl/test_gpus.py",)),
    Section("example", "the example package in C++ and CUDA", ("tests/sdk/test_cosine_cuda.py",)),
    Section(
        "kernels",
        "kernels beyond the table",
        (
            KERNELS,
            f"--ignore={KERNELS}/on_gpu", f"--ignore={KERNELS}/test_models.py",
            f"--ignore={KERNELS}/cudnn/test_cudnn.py",
        ),
        is_parted=True,
    ),
    Section(
        "sanitizer",
        "compute-sanitizer memcheck, one case an operator",
        (f"{TABLE}/test_reference.py", f"{TABLE}/test_gradients.py"),
        is_parted=True,
        environ=(("OPWRIGHT_CUDA_DEBUG_MEMORY", "1"), ("OPWRIGHT_ONE_PER_OPERATOR", "1")),
        command=(
            "compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9",
            "--launch-timeout", "0", "--report-api-errors", "no",
        ),
    ),
)  # fmt: skip


class Runner:
    """Runs sections until the deadline.

    Parameters
    ----------
    env : dict
        The environment of the processes.
    results : Path
        Folder of the results.
    deadline : float
        Time of `time.monotonic` at which processes are terminated.
    n_parts : int
        Number of processes for a section with `is_parted`.
    more : list of str
        Additional arguments of pytest.
    """

    def __init__(
        self, env: dict[str, str], results: Path, deadline: float, n_parts: int, more: list[str]
    ) -> None:
        self.env = {**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        self.env["PYTHONPATH"] = os.pathsep.join(filter(None, [env["PYTHONPATH"], str(HERE)]))
        self.env["OPWRIGHT_TEST_CACHE_DIR"] = env["OPWRIGHT_CACHE_DIR"]
        if not has_gpu(self.env):
            self.env.setdefault("OPWRIGHT_EMULATOR_DIR", str(install.BUILD / "emulator"))
            n_parts = 1
        self.results, self.deadline, self.n_parts, self.more = results, deadline, n_parts, more

    def run(self, section: Section) -> Report:
        """Run a section; return its report."""
        report = Report(section.name, section.title)
        began = time.monotonic()
        if section.command and shutil.which(section.command[0], path=self.env["PATH"]) is None:
            report.notes.append(f"{section.command[0]} is not installed")
            return report
        n_parts = self.n_parts if section.is_parted else 1
        with ThreadPoolExecutor(n_parts) as pool:
            parts = [pool.submit(self._run_part, section, i, n_parts) for i in range(n_parts)]
            for part in parts:
                file, notes = part.result()
                collect(file, report)
                report.notes += notes
        report.seconds = time.monotonic() - began
        return report

    def _run_part(self, section: Section, index: int, n_parts: int) -> tuple[Path, list[str]]:
        """Run a shard, restarting it after each crash; return its result file and failures."""
        PARTS.mkdir(parents=True, exist_ok=True)
        file = PARTS / f"{section.name}-{index}.jsonl"
        file.unlink(missing_ok=True)
        log = PARTS / f"{section.name}-{index}.log"
        notes: list[str] = []
        env = {**self.env, **dict(section.environ)}
        env |= {"OPWRIGHT_RESULTS": str(file), "OPWRIGHT_SHARD": f"{index}/{n_parts}"}
        if n_parts > 1:
            env["OPWRIGHT_NUM_THREADS"] = "1"  # the processes share the processors
        env["OPWRIGHT_RESULTS_TEXT"] = str(self.results / "results.txt")
        with log.open("wb") as output:
            for start in range(MAX_STARTS):
                n_before = len(read_progress(file)[0])
                status = self._run_process(self._command(section, index), env, output)
                if status is None:
                    notes.append("the time was up")
                    break
                begun, collected = read_progress(file)
                if section.command and status == 9:
                    notes.append(f"{section.command[0]} found errors: see {log.name}")
                if collected and len(begun) >= len(collected):
                    if status < 0:
                        notes.append(f"a process ended with signal {-status} behind its last test")
                    break
                if len(begun) == n_before:
                    last = log.read_text(errors="replace").strip().splitlines()[-3:]
                    notes.append(f"pytest ended with status {status}: {' / '.join(last)}")
                    break
                if start + 1 == MAX_STARTS:
                    notes.append(f"{MAX_STARTS} processes have crashed")
        return file, list(dict.fromkeys(notes))

    def _command(self, section: Section, index: int) -> list[str]:
        command = [*section.command, sys.executable, "-m", "pytest", *section.pytest]
        command += ["-m", "cuda or cuda_kernels", "-q", "-W", "default", "--tb=short"]
        command += ["-p", "no:cacheprovider", "-p", "results_stream", "--no-header"]
        command += ["--continue-on-collection-errors"]
        command += [f"--basetemp={install.BUILD / 'tmp' / f'{section.name}-{index}'}"]
        if install.is_met(install.Need("pytest-timeout", "2.3")):
            command += ["-p", "pytest_timeout", "--timeout=120", "--timeout-method=thread"]
        else:
            command += ["-o", "addopts=-ra --strict-markers --import-mode=importlib"]
        return command + self.more

    def _run_process(self, command: list[str], env: dict[str, str], output: Any) -> int | None:
        """Run a process; return its exit status, or None if it was terminated at the deadline."""
        left = self.deadline - time.monotonic()
        if left < 1:
            return None
        process = subprocess.Popen(
            command, cwd=install.ROOT, env=env, stdout=output, stderr=output, start_new_session=True
        )
        try:
            return process.wait(left)
        except subprocess.TimeoutExpired:
            for how in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, how)
                try:
                    process.wait(3)
                    break
                except subprocess.TimeoutExpired:
                    continue
            return None


def has_gpu(env: dict[str, str]) -> bool:
    """Return whether there is a driver, by the same rule as in the tests."""
    return shutil.which("nvidia-smi", path=env["PATH"]) is not None


def describe_machine(env: dict[str, str]) -> dict[str, Any]:
    """Print and return a description of the machine."""
    done = subprocess.run(
        [sys.executable, str(HERE / "machine.py")],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    *lines, last = done.stdout.strip().splitlines() or [""]
    print("\n".join(lines), flush=True)
    try:
        found: dict[str, Any] = json.loads(last)
    except json.JSONDecodeError:
        print(last, flush=True)
        return {"unknown": done.stdout[-2000:]}
    return found


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [section.name for section in SECTIONS]
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--minutes", type=float, default=9.0, help="in all; default 9")
    parser.add_argument("--parts", type=int, default=max(1, min(8, (os.cpu_count() or 1) // 2)))
    parser.add_argument("--no-cpu", action="store_true", help="do not build opwright-cpu")
    parser.add_argument("--no-install", action="store_true", help="use what is installed")
    parser.add_argument("--results", type=Path, default=install.BUILD, help="folder for results")
    parser.add_argument("--pytest", action="append", default=[], help="one more argument of pytest")
    args = parser.parse_args()
    for name in args.sections:
        if name not in names:
            parser.error(f"no section is called {name!r}; there are {', '.join(names)}")
    return args


def main() -> int:
    """Parse the command line and run the sections."""
    args = parse_arguments()
    deadline = time.monotonic() + 60 * args.minutes
    results: Path = args.results.absolute()
    results.mkdir(parents=True, exist_ok=True)
    env = install.environment(False) if args.no_install else install.install(not args.no_cpu)
    machine = describe_machine(env)
    runner = Runner(env, results, deadline, args.parts, args.pytest)
    reports: list[Report] = []
    (results / "results.txt").write_text("")
    # The test processes write to the same file.
    with (results / "results.txt").open("a", encoding="utf-8") as file:
        for section in SECTIONS:
            if args.sections and section.name not in args.sections:
                continue
            report = runner.run(section)
            reports.append(report)
            print(show(report), flush=True)
            print(show(report), file=file, flush=True)
            summary = summarize(reports, machine, install.fingerprint(not args.no_cpu))
            (results / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        table = show_table(reports)
        print(table, file=file)
    print(f"\n{table}\nresults: {results}/results.txt, summary.json", flush=True)
    return int(not all(report.is_good for report in reports))


if __name__ == "__main__":
    raise SystemExit(main())
