"""Each choice of `opwright new` gives a complete package in which tools report no faults."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from generated_packages import BIN, PACKAGES

import opwright as ow
from opwright import get_include
from opwright_kit.scaffold import CHOICES, LICENSES, check_names, plan_package

COMMON = [".github/workflows/ci.yml", "LICENSE", "README.md", "example.py", "pyproject.toml"]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_all_required_files(packages: Path, name: str) -> None:
    folder, module = packages / name, name.replace("-", "_")
    for path in [*COMMON, f"src/{module}/plugin.py", f"src/{module}/py.typed"]:
        assert (folder / path).is_file(), path
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    plugin = name.removeprefix("opwright-").replace("-", "_")
    assert project["name"] == name
    assert project["entry-points"]["opwright.plugins"] == {plugin: f"{module}.plugin"}
    assert "check_package" in (folder / "tests" / "test_conformance.py").read_text()
    assert f"opwright check {name}" in (folder / ".github/workflows/ci.yml").read_text()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_readme_names_files_that_exist(packages: Path, name: str) -> None:
    text = (packages / name / "README.md").read_text()
    table = text[text.index("| file |") : text.index("## Scope")]
    listed = [row.split("|")[1] for row in table.splitlines()[2:] if row]
    paths = [path for cell in listed for path in re.findall(r"`([^`]+)`", cell)]
    assert paths
    assert [path for path in paths if not (packages / name / path).exists()] == []


def test_no_placeholder_is_left(packages: Path) -> None:
    marks = re.compile(r"@[A-Z_]+@|\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|NotImplemented")
    for path in packages.rglob("*"):
        if path.is_file() and "opwright-abi" not in str(path):
            assert marks.search(path.read_text()) is None, path


def test_all_python_compiles_and_passes_ruff(packages: Path) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", packages], check=True)
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = subprocess.run(
            [BIN / "ruff", *command, "."],
            cwd=packages,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_all_cpp_and_cuda_files_pass_clang_format(packages: Path) -> None:
    found = {*packages.glob("*/native/*.cc"), *packages.glob("*/src/*/cu/*.cu")}
    assert len(found) == sum(language != "python" for _, language in PACKAGES.values())
    found |= {*packages.glob("*/native/*.h")}
    subprocess.run([BIN / "clang-format", "--dry-run", "--Werror", *sorted(found)], check=True)


def test_a_compiled_package_contains_the_headers_of_its_abi_version(packages: Path) -> None:
    [abi] = (packages / "opwright-operator-cpp" / "native").glob("opwright-abi-*")
    include = Path(get_include())
    carried = {path.relative_to(abi / "include") for path in (abi / "include").rglob("*.h*")}
    callers = Path("opwright/run.h")  # of programs that run bundles
    assert carried == {path.relative_to(include) for path in include.rglob("*.h*")} - {callers}
    text = (abi / "include/opwright/abi.h").read_text()
    major, minor = (re.search(rf"OW_ABI_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR"))
    assert abi.name == f"opwright-abi-{major}.{minor}"
    assert f"version {major}.{minor}" in (abi / "README.md").read_text()
    assert (
        'requires = ["scikit-build-core>=1.1"]'
        in (packages / "opwright-operator-cpp/pyproject.toml").read_text()
    )


@pytest.mark.parametrize("license", LICENSES)
def test_a_package_has_the_license_that_was_chosen(license: str) -> None:
    context = ow.Context.discover()
    names = check_names("opwright-acme", context)
    files = plan_package(names, context, license=license).files
    assert tomllib.loads(files["pyproject.toml"])["project"]["license"] == license
    assert license[:3].lower() in files["LICENSE"].lower()


def test_help_lists_every_choice() -> None:
    done = subprocess.run(
        [BIN / "opwright", "new", "--help"], capture_output=True, text=True, check=True
    )
    listed = " ".join(done.stdout.split())
    for kind, language in CHOICES:
        assert f"{kind} in {language}" in listed
