"""`make release` refuses faulty distributions, and serves an index to install from."""

from __future__ import annotations

import io
import stat
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / ".ci"))
import make_release

LICENSE = "acme-1.0.dist-info/licenses/LICENSE"


def write_wheel(folder: Path, *names: str, size: int = 1) -> Path:
    path = folder / "opwright_acme-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in names:
            wheel.writestr(name, b"\0" * size)
    return path


def write_source(folder: Path, *names: str) -> Path:
    path = folder / "opwright_acme-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as source:
        for name in names:
            source.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def test_a_distribution_with_its_license_passes(tmp_path: Path) -> None:
    assert list(make_release.find_faults(write_wheel(tmp_path, LICENSE))) == []
    assert list(make_release.find_faults(write_source(tmp_path, "acme-1.0/LICENSE"))) == []


def test_a_distribution_without_a_license_is_reported(tmp_path: Path) -> None:
    for path in (write_wheel(tmp_path, "acme.py"), write_source(tmp_path, "acme-1.0/acme.py")):
        assert list(make_release.find_faults(path)) == [
            f"{path.name} must contain a file LICENSE, got none"
        ]


def test_a_distribution_that_is_too_large_is_reported(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, LICENSE, size=make_release.LARGEST)
    [fault] = make_release.find_faults(path)
    assert fault.endswith(" bytes, at most 16,777,216 are expected")


def test_a_library_of_another_project_in_a_wheel_is_reported(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, LICENSE, "acme/libgomp.so.1")
    [fault] = make_release.find_faults(path)
    assert (
        fault == f"{path.name} must not contain libraries of other projects, got acme/libgomp.so.1"
    )


def test_the_index_has_a_page_of_links_for_each_project(tmp_path: Path) -> None:
    wheel, source = write_wheel(tmp_path, LICENSE), write_source(tmp_path, "acme-1.0/LICENSE")
    with make_release.serve(tmp_path) as index:
        page = urllib.request.urlopen(f"{index}opwright-acme/").read().decode()
        assert f'href="{wheel.name}"' in page
        assert f'href="{source.name}"' in page
        assert urllib.request.urlopen(f"{index}opwright-acme/{wheel.name}").read() == (
            wheel.read_bytes()
        )


def write_python(folder: Path, version: str, status: int = 0) -> Path:
    """Write a program that stands in for an interpreter and prints a version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho {version}\nexit {status}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_an_interpreter_is_found_by_name_or_in_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    kept = write_python(tmp_path / "versions" / "9.1.4" / "bin", "9.1")
    named = write_python(tmp_path / "named", "9.2")
    found = make_release.find_pythons(["9.1", "9.2"], [str(named)])
    assert found == {"9.1": str(kept), "9.2": str(named)}


@pytest.mark.parametrize("status", [0, 1])
def test_the_error_names_a_python_that_is_missing_or_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """pyenv has a shim for every version; a shim fails if its version is not selected."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    other = write_python(
        tmp_path / "versions" / "9.1.4" / "bin", "9.1" if status else "9.3", status
    )
    assert other.exists()
    with pytest.raises(
        SystemExit, match=r"Python 9.1 must be on the path or in pyenv, got none; name one: make"
    ):
        make_release.find_pythons(["9.1"])
