"""`make demo` and `make test` install exact releases, which only `make pins` changes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PINS = ROOT / "pins"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = ROOT / ".github" / "workflows"
SAME_ENVIRONMENT = ("packages.txt", "dist.txt", "models.txt", "tools.txt")


def read_pins(name: str) -> Iterator[tuple[Requirement, str]]:
    """Yield each pin in a file with the text of its hashes."""
    text = (PINS / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if not line.startswith("#"):
            pin, _, hashes = line.partition("--hash=")
            yield Requirement(pin), hashes


def releases_on(python: str, name: str) -> dict[str, str]:
    """Return the release that a file pins for each project on Linux with a Python version."""
    system = {**default_environment(), "sys_platform": "linux", "platform_system": "Linux"}
    system |= {"python_version": python, "python_full_version": f"{python}.99"}
    chosen = [pin for pin, _ in read_pins(name) if not pin.marker or pin.marker.evaluate(system)]
    assert len({pin.name for pin in chosen}) == len(chosen)
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in chosen}


def list_pythons() -> list[str]:
    jobs = yaml.safe_load((WORKFLOWS / "tests.yml").read_text(encoding="utf-8"))["jobs"]
    pythons: list[str] = jobs["tests"]["strategy"]["matrix"]["python"]
    return pythons


def read_requirements(source: str) -> list[str]:
    """Return the requirements in a source of `make pins`: a file, a package folder or one name."""
    if (ROOT / source).is_dir():
        project = tomllib.loads((ROOT / source / "pyproject.toml").read_text())["project"]
        return [need for need in project["dependencies"] if not need.startswith("opwright")]
    if not (ROOT / source).is_file():
        return [source.strip('"')]
    lines = [line.partition("#")[0].strip() for line in (ROOT / source).read_text().splitlines()]
    included = [line.removeprefix("-r ") for line in lines if line.startswith("-r ")]
    own = [line for line in lines if line and not line.startswith("-r ")]
    return own + [need for file in included for need in read_requirements(file)]


def list_sources() -> dict[str, list[str]]:
    """Return the sources of each pins file, as listed in the Makefile."""
    variables = dict(re.findall(r"^(PACKAGES|DIST) := (.*)$", MAKEFILE, re.MULTILINE))
    sources: dict[str, list[str]] = {}
    for name, words in re.findall(r"move_pins\.py pins/(\S+) (.*?) (?:--|\$\(WITH)", MAKEFILE):
        text = re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], words)
        sources[name] = text.split()
    return sources


@pytest.mark.parametrize("python", list_pythons())
@pytest.mark.parametrize("name", sorted(list_sources()))
def test_pins_meet_every_requirement_on_every_python(name: str, python: str) -> None:
    releases = releases_on(python, name)
    requirements = [need for source in list_sources()[name] for need in read_requirements(source)]
    assert requirements
    for requirement in map(Requirement, requirements):
        release = releases.get(requirement.name.lower().replace("_", "-"))
        assert release is not None, f"{requirement.name}: run `make pins`"
        assert requirement.specifier.contains(release), f"{requirement}, got {release}"


def test_make_pins_generates_every_pins_file_and_make_installs_it() -> None:
    names = {path.name for path in PINS.iterdir()}
    assert names == set(list_sources())
    for name in names:
        assert re.search(rf"pins \$<|pins pins/{name}", MAKEFILE), name
        assert MAKEFILE.count(f"pins/{name}") >= 2, name


@pytest.mark.parametrize("python", list_pythons())
def test_an_environment_is_pinned_to_one_release(python: str) -> None:
    everything: dict[str, str] = {}
    for name in SAME_ENVIRONMENT:
        for project, release in releases_on(python, name).items():
            assert everything.setdefault(project, release) == release, project


@pytest.mark.parametrize("name", sorted(list_sources()))
def test_pins_are_exact_and_hashed_and_contain_no_path(name: str) -> None:
    assert not re.search(r"://|^\s*--(?!hash)|file:", (PINS / name).read_text(), re.MULTILINE)
    for pin, hashes in read_pins(name):
        assert re.fullmatch(r"==[^*,]+", str(pin.specifier)), pin
        assert re.fullmatch(r"(sha256:[0-9a-f]{64}\s*(--hash=)?)+", hashes), pin


def test_make_test_installs_only_pins_from_the_registry() -> None:
    """Stamp recipes do not call pip directly, except for NCCL, which `make test` does not need."""
    recipe_of = r"^\$\(STAMPS\)/(\w+):.*\n(?:\t\t.*\n)*((?:\t.*\n)+)"
    recipes = re.findall(recipe_of, MAKEFILE, re.MULTILINE)
    assert {"builders", "packages", "cuda", "dist", "tools", "nvrtc"} <= dict(recipes).keys()
    assert [stamp for stamp, recipe in recipes if "$(PIP)" in recipe] == ["nccl"]


def test_the_newest_releases_are_tested_every_night() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "newest.yml").read_text(encoding="utf-8"))
    assert workflow[True]["schedule"]  # YAML reads the word "on" as a boolean
    job = workflow["jobs"]["newest"]
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert runs.index("make pins") < runs.index("bash .ci/run")
    pythons = list_pythons()
    assert job["strategy"]["matrix"]["python"] == [pythons[0], pythons[-1]]
    for step in job["steps"]:
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/any@v1"))
