"""Installs pins, or the packages of this repository in editable mode, and shows the progress.

``install.py pins FILE [WORD ...]`` makes pip install the exact releases listed in a file.
``install.py packages [--no-deps] FOLDER ...`` installs packages one by one and byte-compiles their
sources; their requirements must already be installed, except with ``--no-deps``. Each WORD is
passed to pip.
"""

from __future__ import annotations

import compileall
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
PIN = re.compile(r"^[\w.-]+==", re.MULTILINE)
# For each pin, pip prints a line with one of these prefixes; "Ignoring" means that the pin is for a
# different Python or system.
PIN_DONE = re.compile(r"^(?:Collecting |Ignoring |Requirement already satisfied: )")
UNIT_DONE = re.compile(r"^\s*\[(\d+)/(\d+)\] ")  # a line of ninja
SOURCES = {".c", ".cc", ".cu"}


class Progress:
    """Shows a percentage: one updated line on a terminal, otherwise a new line for every 10 %."""

    def __init__(self, title: str, total: float, stream: TextIO) -> None:
        self._title, self._total, self._stream = title, total, stream
        self._line = ""
        self._tenth = -1

    def show(self, done: float) -> None:
        """Print the percentage if it has changed enough."""
        percent = int(100 * min(done, self._total) / self._total)
        line = f"{self._title}: {percent} %"
        if self._stream.isatty():
            if line != self._line:
                print(f"\r{line}", end="", file=self._stream, flush=True)
        elif percent // 10 > self._tenth:
            print(line, file=self._stream, flush=True)
        self._line, self._tenth = line, max(self._tenth, percent // 10)

    def close(self) -> None:
        """End the line."""
        if self._stream.isatty():
            print(file=self._stream, flush=True)


def run(command: list[str]) -> Iterator[str]:
    """Yield the lines that a command prints; if it fails, exit with its output and status."""
    printed: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            if not UNIT_DONE.match(line):
                printed.append(line)
            yield line
    if process.returncode:
        raise SystemExit(f"\n{' '.join(command)}\n{''.join(printed)}")


def install_pins(file: Path, words: list[str], progress: Progress) -> None:
    done = 0
    for line in run([*PIP, "--require-hashes", "-r", str(file), *words]):
        done += bool(PIN_DONE.match(line))
        progress.show(done)


def count_sources(package: Path) -> int:
    """Return the number of sources that a package compiles, or 1 if it has none."""
    return 1 + sum(path.suffix in SOURCES for path in (package / "native").rglob("*"))


def compile_sources(package: Path) -> None:
    """Write missing or outdated bytecode of the Python sources of a package.

    pip does this only for wheels. If PYTHONDONTWRITEBYTECODE is set, each process would recompile
    the sources of editable packages. This adds 70 ms to the first result of a small model.
    """
    compileall.compile_dir(package / "src", quiet=1)


def install_packages(packages: list[Path], words: list[str], progress: Progress) -> None:
    done = 0
    for package in packages:
        share = count_sources(package)
        # The newest release of a requirement without a pin must not be installed.
        command = [*PIP, "--verbose", "--no-build-isolation", "--no-index", *words]
        for line in run([*command, "--editable", str(package)]):
            if unit := UNIT_DONE.match(line):
                progress.show(done + share * int(unit[1]) / int(unit[2]))
        compile_sources(package)
        done += share
        progress.show(done)


def main() -> int:
    kind, *words = sys.argv[1:]
    packages = [Path(word) for word in words if not word.startswith("-")]
    if kind == "pins":
        file, *words = words
        # The last step is the installation of the downloads, since pip does not report its
        # progress.
        total = 1 + len(PIN.findall(Path(file).read_text(encoding="utf-8")))
        title = file
    else:
        total = sum(map(count_sources, packages))
        title = " ".join(map(str, packages))
    progress = Progress(f"installing {title}", total, sys.stderr)
    progress.show(0)
    if kind == "pins":
        install_pins(Path(file), words, progress)
    else:
        install_packages(packages, [word for word in words if word.startswith("-")], progress)
    progress.show(total)
    progress.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
