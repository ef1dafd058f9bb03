"""`make compile-commands` lists sources separately, even if they were compiled together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_sources_compiled_together_are_listed_separately(tmp_path: Path) -> None:
    build = tmp_path / "package" / "build" / "any"
    unity = build / "CMakeFiles" / "sums.dir" / "Unity" / "unity_0_cxx.cxx"
    unity.parent.mkdir(parents=True)
    unity.write_text('/* by CMake */\n\n#include "/src/sum.cc"\n\n#include "/src/mean.cc"\n')
    commands = [
        {"directory": "/b", "command": f"g++ -O3 -o sums.o -c {unity}", "file": str(unity)},
        {"directory": "/b", "command": "g++ -c /src/exact.cc", "file": "/src/exact.cc"},
    ]
    (build / "compile_commands.json").write_text(json.dumps(commands))
    target = tmp_path / "joined.json"

    join = ROOT / ".ci" / "join_compile_commands.py"
    subprocess.run([sys.executable, join, target, tmp_path / "package"], check=True)

    listed = {command["file"]: command["command"] for command in json.loads(target.read_text())}
    assert listed == {
        "/src/sum.cc": "g++ -O3 -o sums.o -c /src/sum.cc",
        "/src/mean.cc": "g++ -O3 -o sums.o -c /src/mean.cc",
        "/src/exact.cc": "g++ -c /src/exact.cc",
    }
