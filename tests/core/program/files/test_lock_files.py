"""Lock files are readable and written atomically; damaged or foreign files are refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import opwright as ow
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FileMissingError,
    FileTakenError,
    FormatError,
)
from opwright.lowering.lock import LockedKernel, LockedPass

LOCK = ow.Lock(
    "cpu",
    (
        LockedKernel("acme.swish", "cpu", "*", "acme", "opwright-acme", "1.0+local"),
        LockedKernel("add", "cpu", "float32", "native", "opwright_cpu", "0.1.0.dev1"),
    ),
    (LockedPass("fuse", "opwright-std", "1!2.0"),),
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "program.lock"
    LOCK.save(path)
    return path


def test_loading_restores_saved_values(path, tmp_path):
    assert ow.Lock.load(path) == LOCK
    empty = ow.Lock("cuda", (), ())
    empty.save(str(tmp_path / "empty.lock"))
    assert ow.Lock.load(str(tmp_path / "empty.lock")) == empty


def test_each_kernel_and_pass_is_on_a_separate_line(path):
    key = '"operator": "acme.swish", "device": "cpu", "dtype": "*", "library": "acme"'
    assert path.read_text().splitlines()[:6] == [
        "{",
        '  "format": "opwright.lock",',
        '  "format_version": 1,',
        '  "device": "cpu",',
        '  "kernels": [',
        f'    {{{key}, "package": "opwright-acme", "version": "1.0+local"}},',
    ]


def test_saving_a_lock_replaces_it_and_does_not_leave_another_file(path):
    ow.Lock("cuda", (), ()).save(path)
    assert ow.Lock.load(path).device == "cuda"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        (
            2 * LOCK.kernels[:1],
            "lock: .*Lock.load must accept .*, got acme.swish, cpu, .*, acme twice",
        ),
        (
            (LOCK.kernels[0]._replace(library="a b"),),
            "got library .?'a b.*; lock a network with other",
        ),
        (
            (LOCK.kernels[0]._replace(library="a" * 129),),
            "Lock.load must accept .*, got library .?'aaaa",
        ),
    ],
)
def test_a_lock_that_cannot_be_loaded_is_not_saved(path, kernels, message):
    with pytest.raises(FormatError, match=message):
        ow.Lock("cpu", kernels, ()).save(path)
    assert ow.Lock.load(path) == LOCK


def test_a_failed_write_leaves_the_old_lock(path, monkeypatch):
    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        ow.Lock("cuda", (), ()).save(path)
    assert ow.Lock.load(path) == LOCK
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_not_a_lock_is_not_replaced(tmp_path):
    other = tmp_path / "notes.json"
    other.write_text('{"a": 1}')
    with pytest.raises(FileTakenError, match=r"notes\.json: must be a new file or an old lock"):
        LOCK.save(other)
    assert other.read_text() == '{"a": 1}'
    with pytest.raises(FileMissingError, match="its folder must exist"):
        LOCK.save(tmp_path / "absent" / "program.lock")


def test_the_error_for_a_missing_file_shows_how_to_write_one(tmp_path):
    with pytest.raises(FileMissingError, match=r"no such file; write it with opwright lock"):
        ow.Lock.load(tmp_path / "program.lock")


def edited(path, *keys, value):
    content = json.loads(path.read_text())
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["format"], "opwright.generation"),
        (["format"], None),
        (["format_version"], "1"),
        (["format_version"], True),
        (["device"], 3),
        (["device"], None),
        (["kernels"], 3),
        (["kernels"], {"operator": "add"}),
        (["kernels", 0], "add"),
        (["kernels", 0, "version"], None),
        (["kernels", 0, "version"], ["1.0"]),
        (["kernels", 0, "version"], ""),
        (["kernels", 0, "version"], "1" * 129),
        (["kernels", 0, "package"], "opwright-acme; rm -r ~"),
        (["kernels", 0, "package"], "--index-url=x"),
        (["kernels", 0, "library"], "acme\n  to get it"),
        (["kernels", 0, "operator"], "\u202eadd"),
        (["kernels", 1], LOCK.kernels[0]._replace(version="2.0")._asdict()),
        (["passes"], [LOCK.passes[0]._asdict(), LOCK.passes[0]._asdict()]),
        (["passes", 0, "name"], "fuse all"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(path, keys, value):
    edited(path, *keys, value=value)
    with pytest.raises(FormatError, match=r"program\.lock: damaged, or not a lock of opw") as e:
        ow.Lock.load(path)
    assert str(e.value).isprintable()
    assert len(str(e.value)) < 500


@pytest.mark.parametrize(
    ("keys", "value", "got"),
    [
        (["kernels"], None, "kernels None"),
        (["passes"], {"a": 1}, "passes {'a': 1}"),
        (["kernels", 1], 3, "kernels [{"),
        (["kernels", 0, "version"], None, "version None"),
        (["format"], None, "format None, version 1"),
        (["format_version"], "1", "format 'opwright.lock', version '1'"),
    ],
)
def test_the_error_for_a_damaged_field_states_its_name_and_value(path, keys, value, got):
    edited(path, *keys, value=value)
    with pytest.raises(FormatError, match=f"not a lock of opwright, got {re.escape(got)}") as e:
        ow.Lock.load(path)
    assert "object" not in str(e.value)  # as in messages of Python TypeErrors


@pytest.mark.parametrize("use", [ow.Lock.load, LOCK.save])
def test_an_invalid_path_is_refused(use):
    with pytest.raises(AttributeValueError, match=r"^Lock.*: path must have .*, got 'a\\x00b'"):
        use("a\0b")
    with pytest.raises(AttributeTypeError, match=r"^Lock.*: path must be a str or a path, got 3"):
        use(3)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": ' + b"1" * 10_000, b"{}\0"],
)
def test_a_lock_file_with_invalid_json_is_refused(path, data):
    path.write_bytes(data)
    with pytest.raises(FormatError, match="damaged, or not a lock of opwright"):
        ow.Lock.load(path)


def test_the_message_of_a_json_error_is_shown_without_quotes(path):
    path.write_bytes(b"")
    with pytest.raises(FormatError, match=r"got Expecting value: [^']* \(char 0\); write it again"):
        ow.Lock.load(path)


def test_every_truncation_is_refused(path):
    data = path.read_bytes()
    for length in range(len(data.rstrip()) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            ow.Lock.load(path)


def test_a_newer_format_version_is_refused(path):
    edited(path, "format_version", value=2)
    with pytest.raises(FormatError, match="format version must be at most 1, got 2; install a new"):
        ow.Lock.load(path)


def test_huge_files_and_devices_are_not_read(path, tmp_path):
    with path.open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="must have at most 8388608 bytes"):
        ow.Lock.load(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="must be a regular file, got a pipe"):
        ow.Lock.load(tmp_path / "pipe")
    with pytest.raises(FormatError, match="must be a regular file, got a folder"):
        ow.Lock.load(tmp_path)


def test_a_link_to_a_lock_is_read(path, tmp_path):
    (tmp_path / "link.lock").symlink_to(Path(path.name))
    assert ow.Lock.load(tmp_path / "link.lock") == LOCK
