"""The plugin index is used if valid, and harmless if stale, corrupt or unwritable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opwright.cache_folder import find_cache_folder
from opwright.discovery import index
from opwright.discovery.scan import Source, WatchedFile
from opwright.packages import KernelRegistration, OpRegistration
from opwright.plugin import PluginRecord

LOOK = """
import sys
from opwright.context.context import current_context
context = current_context()
answer = {
    "types": context.ops.types(),
    "state": context.report.index_state,
    "imported": sorted(m for m in sys.modules if m.startswith("opwright_")),
    "pluggy": "pluggy" in sys.modules,
}
"""


def index_files(site):
    return sorted(path.name for path in site.cache.iterdir())


def test_the_second_process_does_not_import_plugins(site):
    site.add("acme")
    first, second = site.json(LOOK), site.json(LOOK)
    assert (first["state"], second["state"]) == ("written", "read")
    assert first["imported"] == ["opwright_acme", "opwright_acme.plugin"]
    assert second["imported"] == []
    assert not second["pluggy"]
    assert first["types"] == second["types"] == ["acme.swish"]


def test_using_an_operator_imports_only_its_own_module(site):
    site.add("acme")
    site.add("other")
    site.json(LOOK)
    code = f"{LOOK}\ncontext.ops.get('acme.swish')\n"
    code += "answer = sorted(m for m in sys.modules if m.startswith('opwright_'))"
    assert site.json(code) == ["opwright_acme", "opwright_acme.swish"]


def test_all_registrations_are_restored_from_the_index(site):
    table = """
    import opwright.plugin as plugin

    @plugin.hookimpl
    def opwright_ops(registry):
        registry.add("acme.swish", "opwright_acme.swish:SWISH", hidden=True)

    @plugin.hookimpl
    def opwright_kernels(registry):
        registry.add("acme.swish", device="cpu", dtypes=["float32", "float64"],
                     kernel="opwright_acme.b:c.d",
                     library="fast", priority=7, may_reuse=[("out", "x")], capturable=True,
                     deterministic=False, strided=True,
                     prefers={"mode": "fast", "sizes": [1, 2], "scale": 0.5},
                     find_refusal="opwright_acme.b:find")

    @plugin.hookimpl
    def opwright_devices(registry):
        registry.add("npu", "opwright_acme.npu:NPU")

    @plugin.hookimpl
    def opwright_passes(registry):
        registry.add("fold", phase="canonicalize", function="opwright_acme.fold:fold", device="npu")
    """
    site.add("acme", table)
    code = """
    from opwright.context.context import current_context
    [record] = current_context().records
    answer = [record.from_index, repr(record.ops + record.kernels + record.devices + record.passes)]
    """
    fresh, cached = site.json(code), site.json(code)
    assert (fresh, cached) == ([False, fresh[1]], [True, fresh[1]])


def test_an_edited_hook_module_is_reread(site):
    package = site.add("acme")
    site.json(LOOK)
    table = (package / "plugin.py").read_text().replace('acme.swish"', 'acme.swoosh"')
    (package / "plugin.py").write_text(table)
    again = site.json(LOOK)
    assert again["types"] == ["acme.swoosh"]
    assert "opwright_acme.plugin" in again["imported"]


def test_a_change_of_a_module_that_the_hook_module_imports_is_detected(site):
    table = """
    import opwright.plugin as plugin
    from opwright_acme.names import NAMES

    @plugin.hookimpl
    def opwright_ops(registry):
        for name in NAMES:
            registry.add("acme." + name, "opwright_acme.swish:SWISH")
    """
    package = site.add("acme", table, modules={"names": "NAMES = ['one']"})
    assert site.json(LOOK)["types"] == ["acme.one"]
    (package / "names.py").write_text("NAMES = ['one', 'two']")
    assert site.json(LOOK)["types"] == ["acme.one", "acme.two"]


def test_a_new_version_of_a_plugin_is_reread(site):
    site.add("acme")
    site.json(LOOK)
    (site.folder / "opwright_acme-1.0.dist-info").rename(
        site.folder / "opwright_acme-1.1.dist-info"
    )
    assert site.json(LOOK)["state"] == "written"


def test_an_uninstalled_plugin_disappears_immediately(site):
    site.add("acme")
    package = site.add("other")
    assert site.json(LOOK)["types"] == ["acme.swish", "other.swish"]
    for file in (site.folder / "opwright_other-1.0.dist-info").iterdir():
        file.unlink()
    assert site.json(LOOK)["types"] == ["acme.swish"]
    assert package.exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"nonsense",
        b"[]\n[]",
        b"opwright 5 00000000\n",
        b"opwright 99 00000000\n[]",
        b"\xff\xfe\x00",
    ],
)
def test_a_corrupt_index_is_rewritten(site, damage):
    site.add("acme")
    site.json(LOOK)
    [name] = index_files(site)
    (site.cache / name).write_bytes(damage)
    fixed = site.json(LOOK)
    assert fixed["types"] == ["acme.swish"]
    assert fixed["state"].startswith("corrupt: ")
    assert fixed["state"].endswith("; written")
    assert site.json(LOOK)["state"] == "read"


def test_a_truncated_or_corrupted_index_is_ignored(site):
    site.add("acme")
    site.json(LOOK)
    [name] = index_files(site)
    whole = (site.cache / name).read_bytes()
    for damaged in (whole[:-20], whole.replace(b"float32", b"float16", 1)):
        (site.cache / name).write_bytes(damaged)
        assert site.json(LOOK)["state"].startswith("corrupt: ValueError")


def test_an_unwritable_cache_is_harmless(site):
    site.add("acme")
    site.cache.write_text("a file where the folder should be")
    found = site.json(LOOK)
    assert found["types"] == ["acme.swish"]
    assert found["state"].startswith("unwritable: ")


def test_a_folder_in_place_of_the_index_file_is_harmless(site):
    site.add("acme")
    site.json(LOOK)
    [name] = index_files(site)
    (site.cache / name).unlink()
    (site.cache / name).mkdir()
    found = site.json(LOOK)
    assert found["types"] == ["acme.swish"]
    assert found["state"].startswith("unreadable: ")
    assert index_files(site) == [name]  # no temporary file is left


def test_concurrent_first_processes_leave_one_complete_index(site):
    for name in ("acme", "other", "third"):
        site.add(name)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPWRIGHT_", "PYTHON"))}
    env["PYTHONPATH"] = os.pathsep.join([str(site.folder), str(site.libraries)])
    env["OPWRIGHT_CACHE_DIR"] = str(site.cache)
    code = "from opwright.context.context import current_context as c; print(len(c().ops.types()))"
    command = [sys.executable, "-S", "-c", code]
    children = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [child.communicate()[0].strip() for child in children] == ["3"] * 4
    assert len(index_files(site)) == 1
    assert site.json(LOOK)["state"] == "read"


def test_failures_are_never_cached(site):
    table = "import not_there\n"
    package = site.add("acme", table)
    assert site.failures() == [["acme", "ModuleNotFoundError: No module named 'not_there'"]]
    # Installing a missing dependency does not change any file of the plugin.
    (site.folder / "not_there.py").write_text("")
    (package / "plugin.py").touch()
    assert site.failures()[0][1].startswith("a plugin must implement a hook")


def test_an_allow_list_does_not_remove_other_plugins_from_the_index(site):
    site.add("acme")
    site.add("other")
    assert site.json(LOOK, OPWRIGHT_PLUGINS="acme")["types"] == ["acme.swish"]
    assert site.json(LOOK, OPWRIGHT_PLUGINS="other")["types"] == ["other.swish"]
    everything = site.json(LOOK)
    assert everything["state"] == "read"
    assert everything["types"] == ["acme.swish", "other.swish"]


def test_environments_that_share_a_cache_have_separate_files(tmp_path):
    one = Source("acme", "m", "opwright-acme", "1.0", "/one/site-packages/acme.dist-info", 0)
    two = one._replace(location="/two/site-packages/acme.dist-info")
    assert index.index_path("c", [one], "1") != index.index_path("c", [two], "1")
    assert index.index_path("c", [one], "1") != index.index_path("c", [one], "2")
    assert index.index_path("c", [one], "1") == index.index_path("c", [one], "1")


def make_record(folder: Path, name: str = "acme") -> PluginRecord:
    file = folder / f"{name}.py"
    file.write_text("pass")
    status = file.stat()
    said = (("o", "i"),), True, True, False, (("mode", "fast"), ("sizes", (1, 2)))
    return PluginRecord(
        Source(name, "m", f"opwright-{name}", "1.0", str(folder), 5),
        (OpRegistration(f"{name}.x", "m:X", False),),
        (KernelRegistration("x", "cpu", ("*",), "a", "m:k", 1, *said),),
        files=(WatchedFile(str(file), status.st_mtime_ns, status.st_size),),
        load_ms=0.5,
    )


def test_a_record_survives_a_round_trip_through_the_file(tmp_path):
    record = make_record(tmp_path)
    path = str(tmp_path / "cache" / "plugins-1.index")
    assert index.write(path, [record]) == "written"
    records, _ = index.read(path, [record.source])
    assert records == {index.key_of(record.source): record._replace(from_index=True)}


@pytest.mark.parametrize(
    "change", [{"version": "1.1"}, {"stamp": 6}, {"location": "x"}, {"target": "m2"}]
)
def test_a_record_from_a_different_source_is_ignored(tmp_path, change):
    record = make_record(tmp_path)
    path = str(tmp_path / "plugins-1.index")
    index.write(path, [record])
    assert index.read(path, [record.source._replace(**change)])[0] == {}


def test_a_record_without_files_is_not_stored(tmp_path):
    record = make_record(tmp_path)._replace(files=())
    path = str(tmp_path / "plugins-1.index")
    index.write(path, [record])
    assert index.read(path, [record.source])[0] == {}


def test_the_number_of_index_files_is_limited(tmp_path):
    for i in range(50):
        file = tmp_path / f"plugins-{i}.index"
        file.write_text("")
        os.utime(file, (i, i))
    (tmp_path / "other.txt").write_text("not ours")
    index.write(str(tmp_path / "plugins-new.index"), [make_record(tmp_path)])
    left = sorted(path.name for path in tmp_path.glob("plugins-*"))
    assert len(left) == 32
    assert "plugins-new.index" in left
    assert "plugins-49.index" in left
    assert "plugins-0.index" not in left
    assert (tmp_path / "other.txt").exists()


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"OPWRIGHT_CACHE_DIR": "/x", "XDG_CACHE_HOME": "/y"}, "/x"),
        ({"XDG_CACHE_HOME": "/y"}, "/y/opwright"),
        ({"XDG_CACHE_HOME": "y"}, str(Path("~/.cache/opwright").expanduser())),
        (
            {"OPWRIGHT_CACHE_DIR": "", "XDG_CACHE_HOME": ""},
            str(Path("~/.cache/opwright").expanduser()),
        ),
    ],
)
def test_the_cache_folder_follows_the_environment(environ, folder):
    assert find_cache_folder(environ) == folder


def test_no_index_is_written_without_a_home_folder(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert find_cache_folder({}) is None
    assert index.read(None, [])[1] == "off: there is no cache folder"


def test_a_file_written_during_the_scan_is_not_indexed(site):
    package = site.add("acme")
    later = 2**31 * 10**9
    os.utime(package / "plugin.py", ns=(later, later))
    assert site.json(LOOK)["state"] == "absent"
    assert site.json(LOOK)["imported"] == ["opwright_acme", "opwright_acme.plugin"]


def test_options_are_restored_from_the_index_and_listed_by_the_plugins_command(site):
    table = """
    import opwright.plugin as plugin

    @plugin.hookimpl
    def opwright_options(registry):
        registry.add("fast", default=False, comment="Round more.")
        registry.add("steps", default=3, comment="How many.")
    """
    site.add("acme", table)
    code = """
    from opwright.context.context import current_context
    context = current_context()
    options = context.options
    answer = [context.report.index_state, options.fill(options.check("x", {"acme.steps": 4}))]
    """
    chosen = {"acme.fast": False, "acme.steps": 4}
    assert [site.json(code), site.json(code)] == [["written", chosen], ["read", chosen]]
    assert site.command("plugins").stdout.splitlines()[-3:] == [
        "options, for compile(options={...}):",
        "  acme.fast   bool, default False  Round more.",
        "  acme.steps  int, default 3       How many.",
    ]
