"""An index names modules to import and libraries to open, so untrusted indexes are not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opwright.discovery import index
from opwright.discovery.scan import Source, WatchedFile
from opwright.packages import OpRegistration
from opwright.plugin import PluginRecord

LOOK = """
from opwright.context.context import current_context
context = current_context()
answer = {"types": context.ops.types(), "state": context.report.index_state}
"""


def index_files(site):
    return sorted(path.name for path in site.cache.iterdir())


def make_record(folder: Path) -> PluginRecord:
    file = folder / "plugin.py"
    file.write_text("")
    status = file.stat()
    return PluginRecord(
        Source("acme", "acme.plugin", "opwright-acme", "1.0", str(folder), 1),
        ops=(OpRegistration("acme.swish", "acme.swish:SWISH", False),),
        files=(WatchedFile(str(file), status.st_mtime_ns, status.st_size),),
    )


def rewrite(site, change):
    """Change the text of the index after its header, and write a matching header."""
    [name] = index_files(site)
    path = site.cache / name
    body = change(path.read_bytes().partition(b"\n")[2])
    path.write_bytes(index._make_head(body) + b"\n" + body)
    return path


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_group_or_world_writable_index_is_not_read(site, mode):
    site.add("acme")
    site.json(LOOK)
    [name] = index_files(site)
    (site.cache / name).chmod(mode)
    found = site.json(LOOK)
    assert found["state"].startswith("unreadable: ")
    assert "no other may write it; chmod go-w" in found["state"]
    assert found["state"].endswith("; written")
    assert site.json(LOOK)["state"] == "read"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_an_index_in_a_group_or_world_writable_folder_is_not_used(site, mode):
    site.add("acme")
    site.json(LOOK)
    site.cache.chmod(mode)
    for _ in range(2):
        found = site.json(LOOK)
        assert found["types"] == ["acme.swish"]
        assert found["state"].startswith("unreadable: ")
        assert "; unwritable: " in found["state"]


def test_an_index_of_another_user_is_not_read(tmp_path, monkeypatch):
    path = str(tmp_path / "plugins.index")
    assert index.write(path, [make_record(tmp_path)]) == "written"
    status = Path(path).stat()
    monkeypatch.setattr(os, "geteuid", lambda: status.st_uid + 1)
    if status.st_uid == 0:
        monkeypatch.setattr(
            os, "fstat", lambda file: status.__class__((*status[:4], 7, *status[5:]))
        )
    assert index.read(path, [])[1].startswith("unreadable: ")


def test_only_a_regular_file_is_read(tmp_path):
    path = tmp_path / "plugins.index"
    os.mkfifo(path, 0o600)
    assert index.read(str(path), [])[1].startswith("unreadable: ")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert index.read(str(path), [])[1].startswith("unreadable: ")


POISONS = {
    "another module": (b"opwright_acme.swish:SWISH", b"evil.swish:SWISH"),
    "a library outside": (b"opwright_acme.swish:swish", b"opwright_acme/../../evil.so"),
    "an absolute path": (b"opwright_acme.swish:swish", b"/tmp/evil.so"),
    "an invalid module": (b"opwright_acme.swish:SWISH", b"opwright acme:SWISH"),
    "NUL in a path": (b"plugin.py", b"plugin\0py"),
    "another type": (b"i50", b"s50"),
    "an invalid number": (b"i50", b"ix"),
    "a number of 5,000 digits": (b"i50", b"i" + b"1" * 5000),
    "an invalid position": (b"\tacme.swish_grad\n\n", b"\tacme.swish_grad\n0 7\n"),
    "missing rows": (b"\tacme.swish_grad\n\n", b"\tacme.swish_grad\n0 1 0 1\n"),
    "deep tuples": (b"tsfloat32", b"tt\x1dt\x1et\x1ft"),
    "nothing": (b"\n", b""),
}


@pytest.mark.parametrize("poison", POISONS)
def test_a_manipulated_index_is_used_or_rewritten(site, poison):
    site.add("acme")
    good = site.json(LOOK)
    before, after = POISONS[poison]
    path = rewrite(site, lambda body: body.replace(before, after))
    assert after in path.read_bytes()
    code = LOOK + "\nanswer['kernels'] = repr(context.kernels.registrations())"
    found = site.json(code)
    assert found["types"] == good["types"]
    assert "evil" not in found["kernels"]
    assert found["state"].endswith("written")
    assert site.json(LOOK)["state"] == "read"


def test_a_huge_record_count_is_refused_quickly(site):
    site.add("acme")
    site.json(LOOK)
    rewrite(site, lambda body: b"9" * 18 + body[1:])
    assert site.json(LOOK)["state"].startswith("corrupt: StopIteration")


def test_a_record_that_names_a_foreign_module_is_not_stored(tmp_path):
    record = make_record(tmp_path)
    path = str(tmp_path / "plugins.index")
    foreign = record._replace(ops=(OpRegistration("acme.f", "elsewhere:F", False),))
    assert index.write(path, [foreign]) == "written"
    assert index.read(path, [record.source])[0] == {}


@pytest.mark.parametrize(("kind", "tags"), index._GROUPS[:-1])  # the last group is the load time
def test_every_field_of_a_registration_has_a_tag(kind, tags):
    assert len(kind._fields) == len(tags)
