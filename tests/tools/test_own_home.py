"""Tests and continuous integration neither read nor write user files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from own_home import XDG_FOLDERS

ROOT = Path(__file__).parents[2]

PLACES = """
import json, os, site, sys
from opwright.cache_folder import find_cache_folder
print(json.dumps([os.path.expanduser("~"), site.getuserbase(), find_cache_folder()]))
"""

WRITER = """
import os, pathlib, subprocess, sys

def test_it_writes_where_users_keep_things():
    subprocess.run([sys.executable, "-m", "opwright", "plugins"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "config", "--user", "set", "a.b", "c"], check=True)
    (pathlib.Path.home() / "written").write_text("by a test")
    for place in ("CACHE", "CONFIG", "DATA", "STATE"):
        folder = pathlib.Path(os.environ.get(f"XDG_{place}_HOME", pathlib.Path.home() / place))
        folder.mkdir(exist_ok=True)
        (folder / "written").write_text("by a test")
"""

MAKE = """#!/bin/sh
ls -A "$HOME" >"$SEEN/home-at-the-start-of-$2"
echo "$HOME" >"$SEEN/home"
for folder in "$HOME" "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_STATE_HOME"; do
  test -z "$folder" || touch "$folder/written-by-$2"
done
"""


class Users:
    """The user folders, all empty: home, the XDG folders and the opwright cache."""

    def __init__(self, folder: Path) -> None:
        self.folders = {name: folder / name for name in ("HOME", *XDG_FOLDERS)}
        for place in self.folders.values():
            place.mkdir()
        cache = folder / "opwright"
        cache.mkdir()
        self.folders["OPWRIGHT_CACHE_DIR"] = cache
        places = {name: str(place) for name, place in self.folders.items()}
        self.environ = {**os.environ, **places}

    def found(self) -> dict[str, list[str]]:
        """Return their contents."""
        listed = {n: sorted(e.name for e in f.iterdir()) for n, f in self.folders.items()}
        return {name: names for name, names in listed.items() if names}


@pytest.fixture
def users(tmp_path: Path) -> Users:
    folder = tmp_path / "users"
    folder.mkdir()
    return Users(folder)


def test_tests_and_their_processes_use_a_home_folder_of_this_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLACES], capture_output=True, text=True, check=True
    )
    home, *others = json.loads(done.stdout)
    assert Path(home).name.startswith("opwright-home-")
    assert Path(home) == Path.home()
    assert all(Path(place).is_relative_to(home) for place in others)
    assert not any(name in os.environ for name in XDG_FOLDERS)


def test_a_pytest_run_leaves_the_user_folders_empty(users: Users, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    shutil.copytree(ROOT / "tests" / "support", tests / "support")
    shutil.copy2(ROOT / "tests" / "conftest.py", tests)
    (tests / "test_writer.py").write_text(WRITER)
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command, cwd=tmp_path, env=users.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert users.found() == {}


def test_continuous_integration_uses_an_empty_home_and_removes_it(
    users: Users, tmp_path: Path
) -> None:
    """A program that writes into every user folder replaces `make`."""
    bin_folder, seen = tmp_path / "bin", tmp_path / "seen"
    for folder in (bin_folder, seen):
        folder.mkdir()
    (bin_folder / "make").write_text(MAKE)
    (bin_folder / "make").chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    env = {**users.environ, "PATH": path, "SEEN": str(seen)}
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert users.found() == {}
    assert (seen / "home-at-the-start-of-venv").read_text() == ""
    assert {entry.name.rpartition("-")[2] for entry in seen.iterdir()} >= {"venv", "lint", "test"}
    assert not Path((seen / "home").read_text().strip()).exists()
