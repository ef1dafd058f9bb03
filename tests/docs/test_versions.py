"""The page on versions agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opwright.describe import wire_reading
from opwright.program.files import manifest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
HEADER = (ROOT / "core" / "include" / "opwright" / "abi.h").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "version"),
    [("program.pb", wire_reading.FORMAT_VERSION), ("generation.json", manifest._VERSION)],
)
def test_the_page_states_the_format_versions_that_are_written_and_read(
    file: str, version: int
) -> None:
    [row] = re.findall(rf"^\| `{re.escape(file)}` \|(.*)\|$", PAGE, re.MULTILINE)
    _, written, read = [cell.strip() for cell in row.split("|")]
    assert int(written) == version
    assert read == (f"1 to {version}" if version > 1 else "1")


def test_the_interface_rules_match_the_header() -> None:
    for rule in (
        "A different minor number is never refused.",
        "The major number is part of the",
        "OW_HAS",
    ):
        assert rule in PAGE
        assert rule in re.sub(r"\n \* +", " ", HEADER)


def test_the_changelog_has_a_section_for_the_release_and_sorts_its_changes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert releases[0].startswith("Unreleased\n")
    for release in releases:
        title, *parts = re.split(r"^### (.+)$", release, flags=re.MULTILINE)
        assert re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", title.split("\n")[0])
        names = parts[::2]
        assert set(names) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed"}, title
        assert len(names) == len(set(names))
        assert all(re.search(r"^- \S", part, re.MULTILINE) for part in parts[1::2])
