"""Each launcher folder includes only headers from folders below it."""

from __future__ import annotations

import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "plugins" / "cuda" / "native"
ROOMS = ("driver", "blas", "cudnn", "device", "services", "launch", "")
"""Folders from the lowest to the top level, which contains the library's entry point."""
SHARED = "numbers.h"
"""Header that every folder may include, since it defines how records are read."""


def includes() -> list[tuple[str, str]]:
    """Return an (including folder, included folder) pair for each #include line."""
    found = []
    for file in sorted(NATIVE.rglob("*.*")):
        folder = file.relative_to(NATIVE).parent.as_posix().strip(".")
        for name in re.findall(r'^#include "([^"]+)"', file.read_text(), flags=re.MULTILINE):
            if name != SHARED and (NATIVE / name).exists():
                found.append((folder, name.rpartition("/")[0]))
    return found


def test_every_file_is_in_a_known_folder() -> None:
    flat = {path.name for path in NATIVE.iterdir() if path.is_file()}
    rooms = {path.name for path in NATIVE.iterdir() if path.is_dir()}
    assert (flat, rooms) == ({"plugin.cc", SHARED}, set(filter(None, ROOMS)))


def test_a_folder_includes_only_folders_below_it() -> None:
    upward = [pair for pair in includes() if ROOMS.index(pair[0]) < ROOMS.index(pair[1])]
    assert len(includes()) > 20
    assert upward == []
