"""A registry accepts the wheels from `make wheels`, and they do not need the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from example_wheels import LARGE_WHEELS

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "step.py"
NATIVE = ("opwright", "opwright_cpu", "opwright_cuda")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.long("it packs all wheels anew; test_wheels.py tests those that pip makes"),
]


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheelhouse")
    packages = [path.parent for path in sorted(ROOT.glob("*/pyproject.toml"))]
    packages += [path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    command = [sys.executable, str(ROOT / ".ci" / "make_wheels.py"), str(folder)]
    done = subprocess.run(
        [*command, *map(str, packages)], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(folder.iterdir())) == len(packages)
    return folder


def list_libraries(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each compiled file."""
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            if re.search(r"\.so(\.|$)", name):
                yield name, opened.read(name)


def list_requirements(wheel: Path) -> list[str]:
    """Return the requirements of a wheel, without requirements of extras."""
    with zipfile.ZipFile(wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(opened.read(name).decode())
    lines = metadata.get_all("Requires-Dist") or []
    return [line for line in lines if "extra ==" not in line]


def find_tag(wheelhouse: Path, name: str) -> str:
    [wheel] = wheelhouse.glob(f"{name}-*.whl")
    return wheel.stem.split("-", 2)[2]


def test_the_tag_of_every_wheel_is_accepted_by_a_registry(wheelhouse: Path) -> None:
    for wheel in wheelhouse.iterdir():
        platforms = wheel.stem.rpartition("-")[2].split(".")
        known = r"any|manylinux(2014|_2_\d+)_x86_64"
        assert all(re.fullmatch(known, name) for name in platforms), wheel


def test_the_core_has_one_wheel_per_python_version_and_a_plugin_has_one_for_all_versions(
    wheelhouse: Path,
) -> None:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert find_tag(wheelhouse, "opwright").startswith(f"{python}-{python}-manylinux_")
    for name in ("opwright_cpu", "opwright_cuda"):
        assert find_tag(wheelhouse, name).startswith("py3-none-manylinux_")
    for name in ("opwright_std", "opwright_nn", "opwright_kit"):
        assert find_tag(wheelhouse, name) == "py3-none-any"


@pytest.mark.parametrize("name", NATIVE)
def test_libraries_do_not_need_a_newer_c_library_than_their_tag_states(
    wheelhouse: Path, name: str
) -> None:
    """The symbol versions that the dynamic linker would search for show the required release."""
    [tag] = re.findall(r"manylinux_2_(\d+)_", find_tag(wheelhouse, name))
    [wheel] = wheelhouse.glob(f"{name}-*.whl")
    needed = {
        library: max(map(int, re.findall(rb"\0GLIBC_2\.(\d+)", content)), default=0)
        for library, content in list_libraries(wheel)
    }
    assert any(needed.values())
    assert {library for library, minor in needed.items() if minor > int(tag)} == set()


def test_the_cpu_wheel_requires_onednn_and_does_not_contain_it(wheelhouse: Path) -> None:
    [wheel] = wheelhouse.glob("opwright_cpu-*.whl")
    libraries = dict(list_libraries(wheel))
    assert all(name.startswith("opwright_cpu/") for name in libraries)
    assert b"libdnnl.so.3\0" in libraries["opwright_cpu/onednn.so"]
    assert not [name for name in libraries if "dnnl" in name or "gomp" in name]
    assert [line for line in list_requirements(wheel) if line.startswith("onednn-cpu-gomp")]


def test_an_empty_environment_trains_with_only_these_wheels(
    wheelhouse: Path, bare_environment: Any
) -> None:
    """Third-party packages come from the pip index, and our packages only from the folder."""
    wheels = [wheel for wheel in wheelhouse.iterdir() if not wheel.name.startswith(LARGE_WHEELS)]
    needs = {line for wheel in wheels for line in list_requirements(wheel)}
    bare_environment.install(*(line for line in needs if not line.startswith("opwright")))
    bare_environment.install("--no-index", "--find-links", wheelhouse, "opwright[cpu,nn]")
    versions, *libraries = bare_environment.run("python", SCRIPT).splitlines()
    [found] = {wheel.name.split("-")[1] for wheel in wheelhouse.iterdir()}
    assert versions == f"{found} {found}"
    [onednn] = [path for path in libraries if "libdnnl.so" in path]
    assert Path(onednn).is_relative_to(bare_environment.folder)
    assert len([path for path in libraries if "libgomp" in path]) == 1, "two teams of threads"
    ours = [
        path for path in libraries if "/opwright" in path.removeprefix(str(bare_environment.folder))
    ]
    assert {Path(path).name.partition(".")[0] for path in ours} >= {"_runtime", "onednn"}
