"""The tarball from `make tarball` and the libopwright wheel run bundles without other files."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import opwright_cpu

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "serve_without_python"
CMAKE = """\
cmake_minimum_required(VERSION 3.21)
project(serve LANGUAGES C CXX)
find_package(opwright CONFIG REQUIRED)
add_executable(serve "{source}")
target_link_libraries(serve PRIVATE opwright::run)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.long("it compiles the runtime without Python"),
]


def run(*command: str | Path, text: str | None = None, **variables: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path} | variables,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder with the bundle and the rows, and the expected output for them."""
    folder = tmp_path_factory.mktemp("written")
    return folder, run(sys.executable, EXAMPLE / "write_bundle.py", folder)


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which the tarball is unpacked."""
    folder = tmp_path_factory.mktemp("tarball")
    packages = [ROOT / "core" / "libopwright", ROOT / "plugins" / "cpu"]
    run(sys.executable, ROOT / ".ci" / "make_tarball.py", folder, *packages)
    [archive] = folder.glob("libopwright-*.tar.gz")
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(folder)
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of `python -m libopwright` with only the wheel installed."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import scikit_build_core.build as build; build.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "core" / "libopwright", check=True)
    [built] = folder.glob("libopwright-*-py3-none-*.whl")
    with zipfile.ZipFile(built) as opened:
        opened.extractall(folder / "installed")
    isolated = (sys.executable, "-S", "-m", "libopwright")
    return Path(run(*isolated, PYTHONPATH=str(folder / "installed")).rstrip("\n"))


def compile_serve(prefix: Path, target: Path) -> Path:
    """Compile the example as the documentation shows, with only the flags of pkg-config."""
    variables = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "opwright", **variables).split()
    folder = run("pkg-config", "--variable=libdir", "opwright", **variables).strip()
    source = EXAMPLE / "serve.c"
    run("cc", source, "-o", target / "serve", *flags, f"-Wl,-rpath,{folder}")
    return target / "serve"


def serve(program: Path, written: tuple[Path, str], **variables: str) -> str:
    folder, _ = written
    rows = (folder / "rows.txt").read_text()
    return run(program, folder / "digits.owb", "5", text=rows, **variables)


def test_the_tarball_is_self_contained(
    tarball: Path, written: tuple[Path, str], tmp_path: Path
) -> None:
    program = compile_serve(tarball, tmp_path)
    assert serve(program, written) == written[1]
    # The library is still found after the folder was moved.
    moved = tmp_path / "moved"
    moved.symlink_to(tarball)
    assert serve(compile_serve(moved, tmp_path), written) == written[1]
    assert (tarball / "lib" / "libopwright.so").resolve().stat().st_size <= 1_000_000


def test_the_wheel_runs_bundles_with_the_libraries_of_a_plugin(
    wheel: Path, written: tuple[Path, str], tmp_path: Path
) -> None:
    program = compile_serve(wheel, tmp_path)
    folders = os.pathsep.join(opwright_cpu.__path__)
    assert serve(program, written, OPWRIGHT_LIBRARIES=folders) == written[1]


def test_cmake_finds_the_library(wheel: Path, written: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(source=EXAMPLE / "serve.c"))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "made", f"-DCMAKE_PREFIX_PATH={wheel}")
    run("cmake", "--build", tmp_path / "made")
    folders = os.pathsep.join(opwright_cpu.__path__)
    program = tmp_path / "made" / "serve"
    assert serve(program, written, OPWRIGHT_LIBRARIES=folders) == written[1]


def test_a_source_distribution_is_complete(tmp_path: Path) -> None:
    code = f"import scikit_build_core.build as build; build.build_sdist({str(tmp_path)!r})"
    package = ROOT / "core" / "libopwright"
    subprocess.run([sys.executable, "-c", code], cwd=package, check=True)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        members = {member.name.partition("/")[2]: member for member in opened.getmembers()}
    for name in ("CMakeLists.txt", "native/runtime/bundle/api.cc", "include/opwright/run.h"):
        assert members[name].isreg(), name
