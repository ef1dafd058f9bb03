"""Checks hosted CI, the git hooks, and that all packages have one version."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGES = [path.parent for path in sorted(ROOT.glob("*/pyproject.toml"))]
PACKAGES += [path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
MESSAGE_CHECKER = ROOT / ".ci" / "check_message.py"


def read_project(package: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    return project


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def read_hooks() -> dict[str, list[str]]:
    """Return the command words of each git hook."""
    repositories = read_yaml(".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    return {hook["id"]: hook["entry"].split() for hook in repositories[0]["hooks"]}


def list_lint_commands() -> list[list[str]]:
    """Return the words of each command that `make lint` runs."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    [recipe] = re.findall(r"^lint:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    lines = [line.lstrip("\t@") for line in recipe.splitlines()]
    return [line.split() for line in lines if line.startswith("$(BIN)/")]


def check_message(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "message").write_text(text)
    command = [sys.executable, str(MESSAGE_CHECKER), str(tmp_path / "message")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_package_has_the_version_given_in_one_file(package: Path) -> None:
    """A version number in each package could be forgotten at a release."""
    project = read_project(package)
    assert "version" in project["dynamic"]
    assert "version" not in project
    name = project["name"].replace("-", "_")
    file = package / "src" / name / "_version.py"
    assert file.resolve() == ROOT / "core" / "src" / "opwright" / "_version.py"
    if name == "opwright_jax":
        pytest.importorskip("jax", reason="it registers with JAX when it is imported")
    module = importlib.import_module(name)
    assert module.__version__ == importlib.metadata.version(project["name"])
    assert f'"{module.__version__}"' in file.read_text()
    exact = [need for need in project["dependencies"] if "==" in need]
    assert set(exact) <= {f"opwright=={module.__version__}"}


def test_hosted_ci_runs_the_local_ci_on_every_supported_python() -> None:
    jobs = read_yaml(".github/workflows/tests.yml")["jobs"]
    assert [step["run"] for step in jobs["tests"]["steps"] if ".ci/run" in step.get("run", "")]
    assert "make tidy" in [step.get("run") for step in jobs["tidy"]["steps"]]
    pythons = jobs["tests"]["strategy"]["matrix"]["python"]
    minors = [int(python.removeprefix("3.")) for python in pythons]
    assert minors == list(range(minors[0], minors[-1] + 1))
    for package in PACKAGES:
        assert read_project(package)["requires-python"] == f">={pythons[0]}"
    for job in jobs.values():
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/any@v1"))


def test_a_release_is_tested_and_built_for_every_python_before_it_is_published() -> None:
    jobs = read_yaml(".github/workflows/release.yml")["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml"
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == ("tests", "build")
    pythons = read_yaml(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    [command] = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert f'VERSIONS="{" ".join(pythons["python"])}" release' in command
    assert jobs["publish"]["permissions"] == {"id-token": "write"}, "no password is needed"


def test_the_git_hooks_run_the_tools_of_make_lint_if_installed() -> None:
    """Thus requirements-dev.txt is the only file with tool versions."""
    commands = [[word.replace("$(BIN)", ".venv/bin") for word in c] for c in list_lint_commands()]
    assert len(commands) >= 6
    hooks = read_hooks()
    assert all(words[0].startswith(".venv/bin/") for words in hooks.values())
    for tool, *words in commands:
        # The next word is the subcommand of ruff and python.
        begin = [tool, *words[:1]] if tool.endswith(("/ruff", "/python")) else [tool]
        assert begin in [hook[: len(begin)] for hook in hooks.values()], f"no hook runs {begin}"


def test_the_configuration_of_the_hooks_is_valid() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "x" * 72 + "\n",
        "Fix the gradient of elu\n\nIt read its output.\n# a comment of git's\n",
        "Merge branch 'a-branch-with-a-long-name' into another-branch-with-a-long-name-too\n",
    ],
)
def test_a_valid_message_passes(tmp_path: Path, text: str) -> None:
    done = check_message(tmp_path, text)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("x" * 73, "the subject must have at most 72 characters, got 73"),
        ("Fix the gradient of elu.", "the subject must end without a full stop"),
        ("Fix the gradient\nof elu", "the second line must be empty"),
        ("\nFix the gradient of elu", "the message must begin with its subject"),
    ],
)
def test_a_message_that_breaks_a_rule_is_refused(tmp_path: Path, text: str, finding: str) -> None:
    done = check_message(tmp_path, text)
    assert done.returncode == 1
    assert finding in done.stdout


def test_a_git_hook_refuses_a_long_subject(tmp_path: Path) -> None:
    """pre-commit runs the hook in a separate repository with our configuration."""
    for command in (["init", "-q"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    for name in (".pre-commit-config.yaml", ".ci", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    install = [sys.executable, "-m", "pre_commit", "install"]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)

    def commit(subject: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "commit", "-q", "--allow-empty", "-m", subject]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = commit("x" * 73)
    assert refused.returncode != 0
    assert "at most 72 characters, got 73" in refused.stdout + refused.stderr
    accepted = commit("x" * 72)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
