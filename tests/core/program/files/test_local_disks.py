"""Only files on local disks are mapped, since another machine may remove network files."""

from __future__ import annotations

import os

import pytest

from opwright import disk


@pytest.mark.parametrize(
    ("kind", "expected"), [("ext4", True), ("tmpfs", True), ("nfs4", False), ("fuse.sshfs", False)]
)
def test_the_type_of_the_file_system_determines_whether_a_disk_is_local(
    tmp_path, monkeypatch, kind, expected
):
    path = tmp_path / "file"
    path.write_bytes(b"")
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    other = "21 1 0:0 / /other rw - ext4 /dev/other rw\n"
    mounts.write_text(f"{other}22 1 {number} / {tmp_path} rw shared:1 - {kind} source rw\n")
    monkeypatch.setattr(disk, "_MOUNTS", mounts)
    with path.open() as file:
        assert disk.is_local(file.fileno()) is expected


def test_an_unknown_file_system_does_not_count_as_local(tmp_path, monkeypatch):
    (tmp_path / "mountinfo").write_text("")
    with (tmp_path / "mountinfo").open() as file:
        for name in ("mountinfo", "absent"):
            monkeypatch.setattr(disk, "_MOUNTS", tmp_path / name)
            assert not disk.is_local(file.fileno())
