"""The packages as users install them: wheels in a clean environment, outside the repository."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = Path(__file__).parent / "scripts"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

LOADED = """
import json, sys, opwright
print(json.dumps(sorted(sys.modules)))
"""


def wheel_of(wheels: list[Path], name: str) -> zipfile.ZipFile:
    [wheel] = [path for path in wheels if path.name.startswith(f"{name}-")]
    return zipfile.ZipFile(wheel)


def test_every_wheel_is_typed_and_licensed_and_contains_no_tests(wheels: list[Path]) -> None:
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        package = wheel.name.split("-")[0]
        assert f"{package}/py.typed" in names, wheel.name
        assert [name for name in names if name.endswith("licenses/LICENSE")], wheel.name
        # opwright_kit.testing is for authors of plugins.
        assert not [name for name in names if re.search(r"(^|/)(tests?/|test_|conftest)", name)]


def test_the_cuda_wheel_does_not_contain_the_emulator(wheels: list[Path]) -> None:
    def files(name: str) -> set[str]:
        paths = map(Path, wheel_of(wheels, name).namelist())
        return {path.name for path in paths if path.parent.suffix != ".dist-info"}

    emulator = files("opwright_cuda_emulator") - {
        "__init__.py",
        "_version.py",
        "py.typed",
        "LICENSE",
    }
    assert {"shim.h", "block.cc", "host_compiler.py"} <= emulator
    assert files("opwright_cuda") & emulator == set()
    cuda = wheel_of(wheels, "opwright_cuda")
    python = [name for name in cuda.namelist() if name.endswith(".py")]
    assert [name for name in python if b"opwright_cuda_emulator" in cuda.read(name)] == []


def test_the_core_wheel_has_the_c_headers_and_no_sources(wheels: list[Path]) -> None:
    names = wheel_of(wheels, "opwright").namelist()
    assert [name for name in names if name.endswith("opwright/abi.h")]
    assert [name for name in names if name.endswith("dlpack/dlpack.h")]
    assert not [name for name in names if name.endswith((".cc", "CMakeLists.txt"))]


def test_the_core_wheel_does_not_contain_tools_for_plugin_authors(wheels: list[Path]) -> None:
    wheel = wheel_of(wheels, "opwright")
    names = wheel.namelist()
    assert not [name for name in names if re.search(r"\.(in|html|css|js)$|template", name)]
    top = {re.split(r"[/.]", name)[0] for name in names if ".dist-info" not in name}
    assert top == {"opwright", "opwright_lowering__mypyc"}
    [entry_points] = [name for name in names if name.endswith("entry_points.txt")]
    assert "pytest" not in wheel.read(entry_points).decode()


@pytest.mark.parametrize("package", ["core", "plugins/cpu", "plugins/cuda"])
def test_native_code_is_built_with_all_processors(wheels: list[Path], package: str) -> None:
    """Ninja uses all processors, whereas make uses one unless a number is given."""
    caches = list((ROOT / package / "build").glob("*/CMakeCache.txt"))
    assert caches
    for cache in caches:
        assert "\nCMAKE_GENERATOR:INTERNAL=Ninja\n" in cache.read_text()


def test_the_plugins_are_found_and_pass_their_checks(environment: Any) -> None:
    listed = json.loads(environment.run("opwright", "plugins", "--json"))
    text = json.dumps(listed)
    assert "opwright-std" in text
    assert "Traceback" not in text
    again = json.loads(environment.run("opwright", "plugins", "--json"))
    assert again == listed, "the index of plugins changes what is listed"


def test_import_opwright_does_not_import_plugins(environment: Any) -> None:
    modules = json.loads(environment.python(LOADED))
    plugins = [name for name in modules if name.split(".")[0].startswith("opwright_")]
    assert plugins == []
    assert "google.protobuf" not in modules
    assert "opwright.framework_pb2" not in modules


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("train_digits.py", "accuracy"),
        ("train_program.py", "loss"),
        ("train_convolution.py", "accuracy"),
        ("operators_on_arrays.py", "softmax: axis must be in [-2, 2) for a 2-d input, got axis=2"),
    ],
)
def test_an_example_runs_outside_the_repository(environment: Any, example: str, says: str) -> None:
    folder = environment.folder / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("plugins"), dirs_exist_ok=True)
    assert says in environment.run("python", "-W", "error", folder / example)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("model.py", "0."),
        ("program.py", "fc_0_w_param"),
        ("arrays.py", "clip(x, *, min=-inf, max=inf)"),
    ],
)
def test_code_in_the_readme_runs_unchanged(environment: Any, script: str, says: str) -> None:
    folder = environment.folder / "scripts"
    shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
    assert says in environment.run("python", "-W", "error", folder / script)
