"""Files of the repository: length, forbidden words, package layers and ignored files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / ".ci" / "check_files.py"


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECKER), str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_files_are_short_and_do_not_name_a_machine() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("long.py", "pass\n" * 401, "long.py: at most 400 lines a file, got 401"),
        (
            "place.py",
            "DATA = '/" + "root/data'\n",
            "place.py:1: paths must not depend on one machine",
        ),
        (
            "mark.cc",
            "// TO" + "DO: finish\n",
            "mark.cc:1: marks of unfinished work must be removed",
        ),
        ("space.md", "word \n", "space.md:1: lines must not end with white space"),
        ("end.md", "word", "end.md: a file must end with a newline"),
        ("sine.cc", "T slope = Cos(x);\n", "sine.cc:1: a gradient or derivative, not a slope"),
        ("sine.py", "slope = cos(x)\n", "sine.py:1: a gradient or derivative, not a slope"),
        ("page.md", "A normalised row.\n", "page.md:1: American spelling is used, got 'normalise'"),
    ],
)
def test_a_file_that_breaks_a_rule_is_reported(
    tmp_path: Path, name: str, text: str, finding: str
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / name).write_text(text)
    done = check(tmp_path)
    assert done.returncode == 1
    assert finding in done.stdout


def test_no_import_violates_the_layers() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_states_its_license_and_scope() -> None:
    for package in [ROOT / "core", *sorted((ROOT / "plugins").iterdir())]:
        if (package / "pyproject.toml").exists():
            assert 'license = "Apache-2.0"' in (package / "pyproject.toml").read_text()
            assert "## Scope" in (package / "README.md").read_text(), f"{package.name}/README.md"


def test_git_does_not_ignore_any_file_in_the_repository() -> None:
    """Wheel builders skip files ignored by git, so such a file would be missing from the wheel."""
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_test_and_helper_is_in_a_folder() -> None:
    beside = {path.name for path in (ROOT / "tests").iterdir() if path.is_file()}
    assert beside == {"conftest.py"}, "tests belong to a package, helpers to tests/support"


def test_every_python_file_is_linted() -> None:
    """By default, Ruff excludes folders with names such as ``dist``."""
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    linted = set(done.stdout.splitlines())
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    names = [name for name in listed.stdout.splitlines() if "_pb2" not in name]
    assert [name for name in names if str(ROOT / name) not in linted] == []
