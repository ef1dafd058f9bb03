"""Messages with the oldest protobuf that is supported and with the newest one."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "write_messages.py"
GENERATED = Path("core/src/opwright/framework_pb2.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def oldest_release() -> str:
    """Return the lower bound that core declares, such as ``5.29``."""
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    [bound] = [need for need in project["dependencies"] if need.startswith("protobuf")]
    return str(bound).split(",")[0].removeprefix("protobuf>=")


def test_oldest_and_newest_protobuf_read_each_others_messages(
    wheels: list[Path], make_environment: Callable[..., Any], tmp_path: Path
) -> None:
    kept = [wheel for wheel in wheels if wheel.name.startswith(("opwright-", "opwright_std-"))]
    oldest = make_environment("oldest", *kept, f"protobuf=={oldest_release()}.*")
    newest = make_environment("newest", *kept, "--upgrade", "protobuf")
    written = {}
    for name, environment in (("oldest", oldest), ("newest", newest)):
        written[name] = tmp_path / name
        version = environment.run("python", "-W", "error", SCRIPT, "write", written[name])
        assert version.startswith(oldest_release()) is (environment is oldest), version
    assert written["oldest"].read_bytes() == written["newest"].read_bytes()
    for name, environment in (("oldest", newest), ("newest", oldest)):
        environment.run("python", "-W", "error", SCRIPT, "copy", written[name], tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == written[name].read_bytes()


def test_the_committed_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    command = ["make", "--no-print-directory", "proto", f"PROTO_OUT={tmp_path}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fresh = tmp_path / GENERATED.relative_to("core/src")
    assert fresh.read_text() == (ROOT / GENERATED).read_text(), "run `make proto` and commit"
