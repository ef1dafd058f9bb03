"""The example packages as a stranger gets them: what their READMEs say, after plain pip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from example_wheels import EXAMPLES, build_example_wheel
from pages import check_output, commands_of, read_blocks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

INSTALL = "pip install --quiet ."
NAMES = ("opwright-cosine", "opwright-swish")


@pytest.fixture(scope="module", params=NAMES)
def example(
    request: pytest.FixtureRequest,
    testing_environment: Any,
    cosine_wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """Install an example from the wheel that pip makes of it; give a copy of its folder."""
    environment, name = testing_environment, request.param
    wheel = cosine_wheel
    if name != "opwright-cosine":  # of which all tests share one
        wheel = build_example_wheel(name, tmp_path_factory.mktemp("wheel"))
    environment.install(wheel)
    source = environment.folder / name
    shutil.copytree(EXAMPLES / name, source, ignore=shutil.ignore_patterns("build"))
    yield source
    environment.uninstall(name)
    assert name not in environment.run("opwright", "plugins")


def test_it_is_found_and_sound(example: Path, environment: Any) -> None:
    """Without opwright-cuda's own requirements and without a GPU."""
    assert example.name in environment.run("opwright", "plugins")
    assert environment.run("opwright", "doctor").endswith("\nno problem found\n")


def test_the_commands_of_its_readme_print_what_it_says(example: Path, environment: Any) -> None:
    page = example / "README.md"
    [block] = [block for block in read_blocks(page) if block.language == "console"]
    [(install, nothing), *commands] = commands_of(block)
    assert (install, nothing) == (INSTALL, "")
    assert commands
    for command, expected in commands:
        printed = environment.shell(command, example)
        check_output(page, command, expected, printed)


def test_its_own_tests_pass(example: Path, environment: Any) -> None:
    environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", example / "tests")
