"""The oldest supported protobuf release and the pinned release exchange messages."""

from __future__ import annotations

import subprocess
import tomllib
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


def test_the_oldest_and_the_pinned_protobuf_can_read_each_others_messages(
    environment: Any, tmp_path: Path
) -> None:
    """The environment has the pinned release, which is the newest in nightly runs. The oldest
    release is in a folder that Python searches first.
    """
    oldest, pinned = {"PYTHONPATH": str(tmp_path / "oldest")}, {}
    environment.install_release(f"protobuf=={oldest_release()}.*", tmp_path / "oldest")

    def run(release: dict[str, str], *words: str | Path) -> str:
        return str(environment.run("python", "-W", "error", SCRIPT, *words, **release))

    for name, release in (("by_oldest", oldest), ("by_pinned", pinned)):
        version = run(release, "write", tmp_path / name)
        assert version.startswith(oldest_release()) is (release is oldest), version
    assert (tmp_path / "by_oldest").read_bytes() == (tmp_path / "by_pinned").read_bytes()
    for name, release in (("by_oldest", pinned), ("by_pinned", oldest)):
        run(release, "copy", tmp_path / name, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == (tmp_path / name).read_bytes()


def test_the_committed_messages_match_the_proto_file(tmp_path: Path) -> None:
    command = ["make", "--no-print-directory", "proto", f"PROTO_OUT={tmp_path}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fresh = tmp_path / GENERATED.relative_to("core/src")
    assert fresh.read_text() == (ROOT / GENERATED).read_text(), "run `make proto` and commit"
