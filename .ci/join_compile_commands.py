"""Join the compile commands of native packages: ``join_compile_commands.py FILE PACKAGE ...``.

CMake writes a list to each build folder of a package; the newest list is used.
Sources that are compiled together are listed separately, as editors and clang-tidy expect.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def read_newest(package: Path) -> list[dict[str, str]]:
    lists = sorted(package.glob("build/*/compile_commands.json"), key=lambda p: p.stat().st_mtime)
    if not lists:
        raise SystemExit(
            f"{package}: no compile_commands.json in its build folder; run `make venv`"
        )
    commands: list[dict[str, str]] = json.loads(lists[-1].read_text())
    return commands


def split_unity(command: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the command, or one command for each source that a CMake unity file includes."""
    file = Path(command["file"])
    if file.parent.name != "Unity":
        yield command
        return
    for source in INCLUDED.findall(file.read_text()):
        alone = command["command"].replace(str(file), source)
        yield {"directory": command["directory"], "command": alone, "file": source}


def main() -> None:
    target, *packages = [Path(word) for word in sys.argv[1:]]
    listed = [command for package in packages for command in read_newest(package)]
    commands = [alone for command in listed for alone in split_unity(command)]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(commands, indent=1) + "\n")
    print(f"{target}: {len(commands)} commands")


if __name__ == "__main__":
    main()
