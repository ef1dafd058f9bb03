"""Join the compile commands of native packages: ``join_compile_commands.py FILE PACKAGE ...``.

CMake leaves a list in the folder where it has built each; one of several builds is the newest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def read_newest(package: Path) -> list[dict[str, str]]:
    lists = sorted(package.glob("build/*/compile_commands.json"), key=lambda p: p.stat().st_mtime)
    if not lists:
        raise SystemExit(
            f"{package}: no compile_commands.json in its build folder; run `make venv`"
        )
    commands: list[dict[str, str]] = json.loads(lists[-1].read_text())
    return commands


def main() -> None:
    target, *packages = [Path(word) for word in sys.argv[1:]]
    commands = [command for package in packages for command in read_newest(package)]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(commands, indent=1) + "\n")
    print(f"{target}: {len(commands)} commands")


if __name__ == "__main__":
    main()
