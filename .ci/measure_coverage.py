"""Run tests and print how much of the Python and C++ code they cover: ``make coverage``.

The packages are installed a second time, into an environment in build/coverage, with native code
that counts executed lines. This code is not vectorized, so tests of exact bits and of long sums can
fail there; for these, only `make test` counts. All command-line arguments are passed to pytest. The
numbers are printed even if a test fails, but the exit status then reports the failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "coverage"
PYTHON = PLACE / "venv" / "bin" / "python"
# The build is next to the ordinary build of each native package and does not affect its objects.
BUILD_DIR = "build/coverage/{wheel_tag}"
NATIVE = [
    path.parent
    for path in sorted([*ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("plugins/*/CMakeLists.txt")])
]


def run(*command: str | Path, **variables: str) -> None:
    subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=True)


def install() -> None:
    """Create or update the environment."""
    settings = {
        "SKBUILD_BUILD_DIR": BUILD_DIR,
        "SKBUILD_CMAKE_DEFINE": "OPWRIGHT_COVERAGE=ON",
        "SKBUILD_INSTALL_STRIP": "false",
    }
    place = (PLACE / "venv").relative_to(ROOT)
    run(
        "make",
        "--no-print-directory",
        f"VENV={place}",
        f"PYTHON={sys.executable}",
        "venv",
        **settings,
    )


def forget() -> None:
    """Remove the counts of earlier runs."""
    for package in NATIVE:
        for counts in (package / "build" / "coverage").rglob("*.gcda"):
            counts.unlink()
    for name in ("data", "python", "cpp"):
        shutil.rmtree(PLACE / name, ignore_errors=True)
        (PLACE / name).mkdir(parents=True)


def environ() -> Mapping[str, str]:
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COVERAGE_FILE": str(PLACE / "data" / "counts")}


def run_tests(words: list[str]) -> int:
    """Run pytest, and every process that it starts, under coverage.py."""
    command = [PYTHON, "-m", "coverage", "run", "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, env=environ(), check=False).returncode


def report_python() -> tuple[float, int]:
    """Write the report; return the percentage and the number of lines that ran."""
    coverage = [PYTHON, "-m", "coverage"]
    summary = PLACE / "data" / "python.json"
    run(*coverage, "combine", "--quiet", **environ())
    run(*coverage, "html", "--quiet", "--directory", PLACE / "python", **environ())
    run(*coverage, "json", "--quiet", "-o", summary, **environ())
    totals = json.loads(summary.read_text())["totals"]
    return totals["percent_covered"], totals["num_statements"]


def report_cpp() -> tuple[float, int]:
    """Write the report; return the percentage and the number of lines that ran."""
    summary = PLACE / "data" / "cpp.json"
    gcovr = [PYTHON, "-m", "gcovr", "--root", ROOT, "--json-summary", summary]
    gcovr += ["--html-nested", PLACE / "cpp" / "index.html"]
    # A line of a template counts once, regardless of the number of instances.
    gcovr += [
        "--merge-lines",
        "--merge-mode-functions=merge-use-line-min",
        "--gcov-ignore-parse-errors=all",
    ]
    for package in NATIVE:
        gcovr += ["--filter", f"{(package / 'native').relative_to(ROOT)}/"]
    gcovr += ["--filter", "core/include/opwright/"]
    run(*gcovr, *[package / "build" / "coverage" for package in NATIVE], **environ())
    totals = json.loads(summary.read_text())
    return totals["line_percent"], totals["line_total"]


def main() -> int:
    install()
    forget()
    status = run_tests(sys.argv[1:])
    for language, report in (("Python", report_python), ("C++", report_cpp)):
        percent, count = report()
        folder = "python" if language == "Python" else "cpp"
        print(f"{language:6} {percent:5.1f} % of {count} lines, build/coverage/{folder}/index.html")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
