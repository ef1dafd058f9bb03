"""docs/architecture.md names every subpackage of the core, and only existing files."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "opwright"
NATIVE = ROOT / "core" / "native"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL))
DRAWN = re.findall(r"[\w/]+\.(?:py|cc)\b", PAGE)
FOLDERS = ("core", "plugins", "core/", "plugins/")


def list_rooms() -> list[str]:
    """Return the folders of the core, from its root."""
    folders = {file.parent for file in CORE.rglob("*.py")} - {CORE}
    return sorted(folder.relative_to(CORE).as_posix() for folder in folders)


def list_paths() -> list[str]:
    """Return the names of all files and folders on the page."""
    endings = (".py", ".cc", ".h", ".hpp", ".toml")
    named = [name for name in CODE if name.startswith(FOLDERS) or name.endswith(endings)]
    return sorted({*named, *DRAWN})


def exists(name: str) -> bool:
    """Return whether a name is a path relative to the root or the core, or a native file."""
    if "/" not in name and name.endswith((".cc", ".h")):
        return any(NATIVE.rglob(name))
    return any((folder / name).exists() for folder in (ROOT, CORE))


@pytest.mark.parametrize("room", list_rooms())
def test_every_subpackage_of_the_core_is_named(room: str) -> None:
    assert f"`{room}`" in PAGE, f"docs/architecture.md does not name the room {room}"


@pytest.mark.parametrize("name", list_paths())
def test_every_file_and_folder_that_the_page_names_exists(name: str) -> None:
    assert exists(name), f"docs/architecture.md names {name}, which does not exist"


def test_files_named_by_decisions_in_force_exist() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    files = [f"/{name}" for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    for page in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        text = page.read_text(encoding="utf-8")
        if "\nStatus: accepted\n" in text:
            for name in re.findall(r"`([\w/]+/\w+\.(?:py|cc|cu|h|hpp))`", text):
                assert any(file.endswith(f"/{name}") for file in files), f"{page.name}: {name}"


def test_the_page_names_every_native_folder_and_every_package() -> None:
    folders = {file.parent for file in NATIVE.rglob("*.cc")} | {
        file.parent for file in ROOT.glob("plugins/*/pyproject.toml")
    }
    for folder in folders:
        name = folder.relative_to(ROOT).as_posix()
        assert f"`{name}`" in PAGE, f"docs/architecture.md does not name {name}"


@pytest.mark.parametrize(
    ("file", "fact"),
    [
        ("plan_table.h", "kMostPlans = 4096"),
        ("plan_table.h", "kMostBytes = int64_t{48}"),
        ("idle_memory.h", "kMostBytes = int64_t{64}"),
        ("host_memory.h", "kMostKeptBytes = uint64_t{128}"),
        ("finish.py", "MAX_REFUSALS = 4096"),
        ("differentiating.py", "MAX_TRACES: Final = 64"),
    ],
)
def test_the_sizes_of_the_caches_match_the_code(file: str, fact: str) -> None:
    (source,) = [*NATIVE.rglob(file), *CORE.rglob(file)]
    assert fact in source.read_text(encoding="utf-8")
    (number,) = re.findall(r"= \D*(?:\d+_t\{)?(\d+)", fact)
    assert f"{int(number):,}" in PAGE


def test_a_subpackage_imports_only_lower_subpackages_even_for_types() -> None:
    table = PAGE.partition("## The subpackages of the core")[2].partition("\n## ")[0]
    rooms = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert {"describe", "program", "lowering", "run"} <= set(rooms)
    graph = grimp.build_graph("opwright", exclude_type_checking_imports=False, cache_dir=None)
    chains = [
        chain
        for higher, lower in itertools.combinations(rooms, 2)
        for chain in graph.find_shortest_chains(f"opwright.{lower}", f"opwright.{higher}")
    ]
    assert chains == []
