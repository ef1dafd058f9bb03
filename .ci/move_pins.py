"""Writes pins: exact releases with file hashes, for all Python versions and processors.

``move_pins.py FILE SOURCE ... [-- WORD ...]``. A source is a requirements file, a requirement, or
the folder of a package. For a package, its dependencies on other projects are used. The words after
``--`` are passed to uv; without words, all pins move to the newest releases.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

UV = Path("build/uv/bin/uv")
OWN = "opwright"


def read_project(package: Path) -> dict[str, Any]:
    text = (package / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def list_requirements(sources: list[str]) -> list[str]:
    """Return the external requirements of the sources."""
    requirements: list[str] = []
    for source in sources:
        if Path(source).is_dir():
            asked = read_project(Path(source))["dependencies"]
            requirements += [need for need in asked if not need.startswith(OWN)]
        elif not Path(source).is_file():
            requirements.append(source)
    return requirements


def move(pins: Path, sources: list[str], words: list[str]) -> None:
    """Make uv resolve the sources once for all Python versions that the core supports."""
    files = [source for source in sources if Path(source).is_file()]
    oldest = read_project(Path("core"))["requires-python"].removeprefix(">=")
    command = [str(UV), "pip", "compile", "--no-config", "--quiet", "--universal"]
    command += ["--python-version", oldest, "--generate-hashes", "--no-build", "--no-annotate"]
    command += ["--custom-compile-command", "make pins", "--output-file", str(pins)]
    # An index that a user has configured for all projects would replace the public index.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    requirements = "\n".join(list_requirements(sources))
    command += [*(words or ["--upgrade"]), "-", *files]
    subprocess.run(command, input=requirements, text=True, check=True, env=environ)


def main() -> int:
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    pins, *sources = arguments[:end]
    try:
        move(Path(pins), sources, arguments[end + 1 :])
    except subprocess.CalledProcessError as error:
        return int(error.returncode)  # uv has printed the reason
    print(pins)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
