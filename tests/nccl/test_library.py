"""NVIDIA's NCCL is opened and creates ids without a GPU; a missing or old NCCL is reported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from opwright_dist import DistError, get_engine
from opwright_nccl import doctor, library


def has_wheel() -> bool:
    try:
        return bool(distribution(library.WHEEL))
    except PackageNotFoundError:
        return False


real = pytest.mark.skipif(not has_wheel(), reason="NVIDIA's NCCL is not installed: make test-nccl")


def run_alone(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if "NCCL" not in name}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@real
def test_the_library_in_the_wheel_is_opened_and_creates_ids() -> None:
    code = """
from opwright_nccl.library import call, find_library, make_id, open_library
assert open_library() == find_library()
print(call("version"))
ids = {make_id() for _ in range(3)}
assert len(ids) == 3 and all(len(each) == 128 and any(each) for each in ids)
"""
    done = run_alone(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2.")


@real
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="it connects where there is a GPU")
def test_a_failed_connection_reports_the_nccl_error() -> None:
    code = """
from opwright_nccl.library import ask, open_library
open_library()
print(ask("try"))
"""
    done = run_alone(code)
    assert "unhandled cuda error" in done.stdout, done.stdout + done.stderr
    assert "CUDA driver version is insufficient" in done.stdout


@real
def test_an_engine_of_one_process_does_not_need_a_gpu_before_a_collective() -> None:
    code = """
import opwright_dist as dist
print(dist.rank(), dist.size(), dist.current_world().engine.describe(), dist.gather(b"a"))
"""
    done = run_alone(code, OPWRIGHT_DIST_ENGINE="nccl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 1 NCCL 2."), done.stdout
    assert done.stdout.endswith("[b'a']\n")


@real
def test_doctor_prints_the_version_and_why_the_self_test_was_skipped() -> None:
    code = "from opwright_nccl.doctor import examine; print(*examine().facts.values())"
    done = run_alone(code)
    assert "NCCL 2." in done.stdout, done.stdout + done.stderr
    assert "not run, since /dev/nvidia0" in done.stdout or "GPU" in done.stdout


def test_doctor_does_not_report_an_error_if_the_wheel_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(library, "find_in_wheel", lambda *_: None)
    facts, reason, _ = doctor.examine()
    assert "NCCL must be installed" in facts["library"]
    assert reason == ""


def test_doctor_reports_a_library_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(library.LIBRARY_VARIABLE, str(tmp_path / "libnccl.so.2"))
    _, reason, advice = doctor.examine()
    assert "libnccl.so.2: cannot open shared object file" in reason
    assert advice == "pip install nvidia-nccl-cu13"


def test_the_error_for_a_missing_library_names_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(library, "find_in_wheel", lambda *_: None)
    with pytest.raises(DistError, match="pip install nvidia-nccl-cu13, or set OPWRIGHT_"):
        library.find_library()


def test_the_error_for_a_library_that_cannot_be_opened_states_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "libnccl.so.2"
    path.write_text("no library")
    code = "from opwright_nccl.library import open_library; open_library()"
    done = run_alone(code, OPWRIGHT_NCCL_LIBRARY=str(path))
    assert "DistError: opwright-nccl: " in done.stderr
    assert f"{path}: file too short" in done.stderr or "invalid ELF header" in done.stderr


def test_a_library_that_lacks_an_nccl_function_is_refused() -> None:
    code = """
import ctypes.util
from opwright_nccl.library import call
call("open", ctypes.util.find_library("c").encode())
"""
    done = run_alone(code)
    assert "NCCL must be 2.28.0 or newer, got a library without ncclGetVersion" in done.stderr


def test_a_library_that_is_too_old_is_refused(emulated_library: str) -> None:
    code = "from opwright_nccl.library import open_library; open_library()"
    done = run_alone(
        code, OPWRIGHT_NCCL_LIBRARY=emulated_library, OPWRIGHT_EMULATOR_NCCL_VERSION="22703"
    )
    assert "NCCL must be 2.28.0 or newer, got 2.27.3; pip install --upgrade" in done.stderr


def test_the_engine_is_selected_by_its_name() -> None:
    engine = get_engine("nccl")
    assert engine.name == "nccl"
    assert not engine.was_launched()
