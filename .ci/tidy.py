"""Run clang-tidy on C++ files, several in parallel: ``tidy.py COMPILE_COMMANDS [PART ...]``.

A file is checked if its path contains one of the parts; without parts, all files are checked.
Findings in a header that several files include are printed only once. The exit status is 1 if there
are findings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

TIDY = Path(sys.executable).parent / "clang-tidy"
FINDING = re.compile(r"^/.*: (?:warning|error): ", re.MULTILINE)


def find_headers() -> str:
    """Return GCC's header folder; its omp.h belongs to the linked OpenMP library."""
    command = [os.environ.get("CXX", "g++"), "-print-file-name=include"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def list_files(commands: Path, parts: list[str]) -> list[str]:
    files = sorted({command["file"] for command in json.loads(commands.read_text())})
    return [file for file in files if not parts or any(part in file for part in parts)]


def check(file: str, options: list[str]) -> list[str]:
    """Return the findings in a file, each with its context lines."""
    command = [str(TIDY), "--quiet", *options, file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    begins = [match.start() for match in FINDING.finditer(done.stdout)]
    findings = [done.stdout[a:b].rstrip() for a, b in pairwise([*begins, len(done.stdout)])]
    if done.returncode and not findings:
        findings = [f"{file}: exit status {done.returncode}\n{done.stdout}{done.stderr}"]
    return findings


def main() -> int:
    commands, parts = Path(sys.argv[1]), sys.argv[2:]
    files = list_files(commands, parts)
    if not files:
        raise SystemExit(f"tidy: a path in {commands} must contain one of {parts}, got none")
    options = ["-p", str(commands.parent), f"--extra-arg=-idirafter{find_headers()}"]
    seen: set[str] = set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(lambda file: check(file, options), files):
            for finding in findings:
                if finding not in seen:
                    print(finding, flush=True)
                seen.add(finding)
    print(f"{len(seen)} findings of clang-tidy in {len(files)} files")
    return 1 if seen else 0


if __name__ == "__main__":
    raise SystemExit(main())
