"""Build, check and test a release: ``make_release.py FOLDER [PACKAGE_FOLDER ...]``.

The source distribution of each package is built, and wheels are built from it: one for every Python
version for the core, and a single one for each plugin. All distributions are checked and served
by a local package index. From this index, `opwright` is installed into environments without a
compiler. There it runs the README, a round trip through ONNX, and a package that `opwright new`
writes.
FOLDER then contains the files to upload.

``--versions`` lists Python versions; ``--pythons`` names interpreters that are neither on the path
nor in pyenv.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from make_wheels import add_tag, run

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests" / "packaging" / "scripts"
LARGEST = 16 << 20
"""The expected maximum bytes per file; the registry accepts six times as much."""

EXTRAS = "opwright[cpu,nn,onnx,dev]"


def find_pythons(versions: Sequence[str], named: Sequence[str] = ()) -> dict[str, str]:
    """Return an interpreter for each version: as named, from the path, or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = {}
    for version in versions:
        candidates = [*named, f"python{version}"]
        candidates += [str(path) for path in pyenv.glob(f"versions/{version}.*/bin/python")]
        fitting = [name for name in candidates if version_of(name) == version]
        if not fitting:
            raise SystemExit(
                f"make release: Python {version} must be on the path or in pyenv, got "
                f"none; name one: make release PYTHONS=/path/to/python{version}"
            )
        found[version] = fitting[0]
    return found


def version_of(python: str) -> str | None:
    """Return the version of an interpreter, such as "3.12", or None if it does not start."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return None if done.returncode else done.stdout.strip()


def make_environment(python: str, folder: Path) -> Path:
    """Create an environment and return its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def build_sources(packages: Sequence[Path], folder: Path) -> list[Path]:
    """Build the source distributions with the tools of this environment."""
    for package in packages:
        run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", folder, package)
    return sorted(folder.glob("*.tar.gz"))


def build_wheel(python: Path, source: Path, folder: Path) -> Path:
    """Build a wheel as a user's pip does, with only the declared build requirements."""
    with tempfile.TemporaryDirectory() as built:
        pip = [python, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
        run(*pip, "--wheel-dir", built, source)
        [wheel] = Path(built).glob("*.whl")
        add_tag(wheel, folder)
        return wheel


def build_wheels(sources: Sequence[Path], pythons: dict[str, str], folder: Path) -> None:
    """Build one wheel from each source distribution, or one for each Python if required."""
    with tempfile.TemporaryDirectory() as made:
        builders = [make_environment(python, Path(made) / v) for v, python in pythons.items()]
        for source in sources:
            print(f"building wheels of {source.name}", flush=True)
            wheel = build_wheel(builders[0], source, folder)
            if wheel.stem.split("-")[2].startswith("cp"):
                for builder in builders[1:]:
                    build_wheel(builder, source, folder)


def list_names(distribution: Path) -> list[str]:
    """Return the file names in a wheel or a source distribution."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as wheel:
            return wheel.namelist()
    with tarfile.open(distribution) as source:
        return source.getnames()


def find_faults(distribution: Path) -> Iterator[str]:
    """Yield problems that a registry or user would report."""
    size = distribution.stat().st_size
    if size > LARGEST:
        yield f"{distribution.name} has {size:,} bytes, at most {LARGEST:,} are expected"
    inside = ".dist-info/licenses/LICENSE" if distribution.suffix == ".whl" else "/LICENSE"
    if not any(name.endswith(inside) for name in list_names(distribution)):
        yield f"{distribution.name} must contain a file LICENSE, got none"
    foreign = [name for name in list_names(distribution) if "libdnnl" in name or "libgomp" in name]
    if foreign:
        yield (
            f"{distribution.name} must not contain libraries of other projects, got "
            f"{', '.join(foreign)}"
        )


def check(folder: Path) -> None:
    """Exit with an error if a distribution in the folder must not be uploaded."""
    distributions = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    run(sys.executable, "-m", "twine", "check", "--strict", *distributions)
    faults = [fault for path in distributions for fault in find_faults(path)]
    if faults:
        raise SystemExit("\n".join(["make release:", *faults]))
    for path in distributions:
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve the distributions as an index and return its address."""
    with tempfile.TemporaryDirectory() as made:
        for path in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
            project = Path(made) / "simple" / path.name.split("-")[0].replace("_", "-")
            project.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, project)
        handler = partial(_Silent, directory=made)
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/simple/"
            server.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    """Serves file lists as pages of links, which is the index format, without logging."""

    def log_message(self, *_: object) -> None:
        pass


def install(python: Path, index: str, version: str) -> None:
    """Install only from wheels, and the packages of this repository only from the index."""
    report = python.parents[1] / "installed.json"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--only-binary", ":all:"]
    # pip has no preferred index, so the origin of each wheel is checked in pip's report.
    run(*pip, "--report", report, "--extra-index-url", index, f"{EXTRAS}=={version}")
    for item in json.loads(report.read_text())["install"]:
        name, address = item["metadata"]["name"], item["download_info"]["url"]
        if name.startswith("opwright") and not address.startswith(index):
            raise SystemExit(f"make release: {name} was installed from {address}, not from {index}")


def try_release(python: Path, folder: Path) -> None:
    """Run a new user's commands without a compiler on the path."""
    tools = python.parent
    variables = {"PATH": str(tools), "HOME": str(folder)}

    def call(*command: str | Path) -> None:
        run(*command, cwd=folder, env=variables)

    # The interpreter of this script compares the output of the blocks, which run in `python`.
    run(sys.executable, SCRIPTS / "run_readme.py", python, folder, ROOT / "README.md")
    call(python, SCRIPTS / "onnx_round_trip.py")
    call(tools / "opwright", "doctor")
    call(tools / "opwright", "new", "opwright-acme")
    call(python, "-m", "pip", "--disable-pip-version-check", "install", "./opwright-acme")
    call(python, "opwright-acme/example.py")
    call(tools / "opwright", "check", "opwright-acme")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("packages", type=Path, nargs="+")
    parser.add_argument("--versions", nargs="+", required=True, help="Python versions like 3.12")
    parser.add_argument("--pythons", nargs="*", default=[], help="paths of other interpreters")
    words = parser.parse_args()
    pythons = find_pythons(words.versions, words.pythons)
    if words.folder.exists() and any(words.folder.iterdir()):
        raise SystemExit(
            f"make release: {words.folder} already contains files; empty it: make clean"
        )
    words.folder.mkdir(parents=True, exist_ok=True)
    sources = build_sources(words.packages, words.folder)
    build_wheels(sources, pythons, words.folder)
    check(words.folder)
    [version] = {path.name.removesuffix(".tar.gz").split("-")[1] for path in sources}
    with serve(words.folder) as index, tempfile.TemporaryDirectory() as made:
        for number, python in pythons.items():
            folder = Path(made) / number
            bare = make_environment(python, folder / "env")
            install(bare, index, version)
            try_release(bare, folder)
            print(f"Python {number}: the README, ONNX and a new package work", flush=True)


if __name__ == "__main__":
    main()
