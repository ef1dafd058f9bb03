"""If importing a plugin kills a process, the next process names it, and later processes skip it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

LOOK = """
from opwright.context.context import current_context
context = current_context()
answer = [context.ops.types(), [[f.package.plugin, f.reason, f.advice] for f in context.failures]]
"""

ENDS = {
    "exit": ("import os\nos._exit(7)\n", 7),
    "segfault": ("import ctypes\nctypes.string_at(0)\n", -signal.SIGSEGV),
}

HANG = """
import pathlib, time
pathlib.Path(__file__).with_suffix(".began").touch()
time.sleep(600)
"""

USE = "import numpy, opwright; print(opwright.ops.acme.swish(numpy.ones(2)))"


def run(site, code, **environ):
    """Run code with warnings shown instead of raised."""
    return site.run("-W", "default", "-c", code, check=False, **environ)


def look(site, **environ):
    """Return the operators, failures and warnings of a process."""
    done = run(site, f"{LOOK}\nimport json\nprint(json.dumps(answer))", **environ)
    assert done.returncode == 0, done.stderr
    return *json.loads(done.stdout), done.stderr


def kill_when_begun(site, code, began):
    """Run code, and kill the process once a file exists."""
    began.unlink(missing_ok=True)
    env = {**os.environ, "OPWRIGHT_CACHE_DIR": str(site.cache)}
    env["PYTHONPATH"] = os.pathsep.join([str(site.folder), str(site.libraries)])
    command = [os.sys.executable, "-S", "-W", "default", "-c", code]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 600
        while not began.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        return process.communicate()[1]


def notes(site):
    return list(site.cache.glob("importing-*"))


@pytest.mark.parametrize("how", ENDS)
def test_a_plugin_that_crashed_two_processes_is_skipped_by_the_third(site, how):
    text, code = ENDS[how]
    site.add("acme", text)
    site.add("other")
    first, second = run(site, LOOK), run(site, LOOK)
    assert (first.returncode, second.returncode) == (code, code)
    assert "ended while importing" not in first.stderr
    assert (
        "RuntimeWarning: plugin 'acme': a process ended while importing 'opwright_acme.plugin' of "
        "opwright-acme 1.0 (process "
    ) in second.stderr
    assert "if that happens again, it is skipped; to see the reason: opwright doctor" in (
        second.stderr
    )
    types, [[plugin, reason, advice]], _ = look(site)
    assert types == ["other.swish"]
    assert plugin == "acme"
    assert reason.startswith("the last 2 processes ended while importing 'opwright_acme.plugin' of")
    assert reason.endswith(", and so did one that only tried it; it is skipped")
    assert advice == "opwright doctor --retry acme"


def test_a_process_killed_during_a_hanging_import_counts_as_killed_by_the_import(site):
    package = site.add("acme", HANG)
    began = package / "plugin.began"
    kill_when_begun(site, LOOK, began)
    os.utime(began, ns=(0, 0))  # must not count as a changed source file
    warned = kill_when_begun(site, LOOK, began)
    os.utime(began, ns=(0, 0))
    assert "ended while importing 'opwright_acme.plugin'" in warned
    [[plugin, _, _]] = look(site)[1]
    assert plugin == "acme"


def test_one_process_killed_during_an_import_does_not_exclude_a_healthy_plugin(site):
    package = site.add("acme", f"import opwright_acme.slow\n{_table()}", modules={"slow": HANG})
    began = package / "slow.began"
    kill_when_begun(site, LOOK, began)
    (package / "slow.py").write_text("")
    os.utime(package / "slow.py", ns=(0, 0))
    os.utime(began, ns=(0, 0))
    types, failures, warned = look(site)
    assert (types, failures) == (["acme.swish"], [])
    assert "ended while importing" in warned
    assert notes(site) == []  # after a success, earlier failures no longer count
    assert look(site)[2] == ""


def test_two_processes_killed_during_an_import_do_not_exclude_a_healthy_plugin(site):
    package = site.add("acme", f"import opwright_acme.slow\n{_table()}", modules={"slow": HANG})
    began = package / "slow.began"
    for _ in range(2):
        kill_when_begun(site, LOOK, began)
        os.utime(began, ns=(0, 0))
    (package / "slow.py").write_text("")
    os.utime(package / "slow.py", ns=(0, 0))
    assert len(notes(site)) == 2
    assert look(site) == (["acme.swish"], [], "")
    assert notes(site) == []


def _table():
    from sites import TABLE

    return TABLE


def test_imports_in_processes_that_are_still_running_are_not_counted(site):
    package = site.add("acme", HANG)
    began = package / "plugin.began"
    env = {**os.environ, "OPWRIGHT_CACHE_DIR": str(site.cache)}
    env["PYTHONPATH"] = os.pathsep.join([str(site.folder), str(site.libraries)])
    processes = [subprocess.Popen([os.sys.executable, "-S", "-c", LOOK], env=env) for _ in range(2)]
    try:
        while len(notes(site)) < 2 or not began.exists():
            assert all(process.poll() is None for process in processes)
            time.sleep(0.01)
        code = (
            "from opwright.packages.import_notes import ImportNotes\n"
            f"answer = len(ImportNotes({str(site.cache)!r}).find_ended())"
        )
        assert site.json(code) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    os.utime(began, ns=(0, 0))
    assert site.json(code) == 2


def test_a_kernel_module_that_kills_processes_is_skipped(site):
    package = site.add("acme", modules={"kernel": "import os\nos._exit(7)\n"})
    table = package / "plugin.py"
    table.write_text(
        table.read_text()
        + """
@plugin.hookimpl(specname="opwright_kernels")
def more(registry):
    registry.add("acme.swish", device="cpu", dtypes="*", library="fast", priority=90,
                 kernel="opwright_acme.kernel:swish")
"""
    )
    os.utime(table, ns=(0, 0))
    first, second, third = (run(site, USE) for _ in range(3))
    assert (first.returncode, second.returncode) == (7, 7)
    assert "plugin 'acme': a process ended while importing 'opwright_acme.kernel'" in second.stderr
    assert third.stdout == "[0.73105858 0.73105858]\n"
    assert "the last 2 processes ended while importing 'opwright_acme.kernel'" in third.stderr
    assert "; it is skipped; opwright doctor --retry acme; the kernel is skipped" in (third.stderr)
    strict = run(site, USE, OPWRIGHT_STRICT="1")
    assert "PluginError" in strict.stderr.splitlines()[-1]
    assert "opwright doctor --retry acme" in strict.stderr.splitlines()[-1]
    shown = site.command("plugins").stdout
    assert "plugin 'acme': the last 3 processes ended while importing 'opwright_acme.kernel'" in (
        shown
    )


def test_strict_raises_for_excluded_plugins(site):
    site.add("acme", ENDS["exit"][0])
    run(site, LOOK), run(site, LOOK)
    done = run(site, LOOK, OPWRIGHT_STRICT="1")
    assert "PluginError: plugin 'acme' of opwright-acme 1.0 failed to load: the last 2" in (
        done.stderr
    )
    assert "opwright doctor --retry acme" in done.stderr


@pytest.fixture
def left_out(site):
    """Terminate two processes and a fork while they import acme; return acme's hook module."""
    package = site.add("acme", ENDS["exit"][0])
    run(site, LOOK), run(site, LOOK), look(site)
    return package / "plugin.py"


def test_plugins_and_doctor_show_how_to_restore_excluded_plugins(site, left_out):
    shown = site.command("plugins").stdout
    assert "plugin 'acme' failed to load: the last 3 processes ended while importing" in shown
    assert "to try it again: opwright doctor --retry acme" in shown
    [item] = json.loads(site.command("plugins", "--json").stdout)
    assert item["state"] == "failed"
    assert item["ended_imports"] == [
        {"subject": "opwright_acme.plugin", "processes": 3, "left_out": True}
    ]
    report = site.command("doctor")
    assert report.returncode == 1
    assert "ended the process with exit code 7 while its hooks ran" in report.stdout
    assert "the last 3 processes ended while importing 'opwright_acme.plugin'" in report.stdout
    assert "  to try it again: opwright doctor --retry acme" in report.stdout
    [ended] = json.loads(site.command("doctor", "--json").stdout)["ended_imports"]
    assert (ended["plugin"], ended["subject"], ended["processes"]) == (
        "acme",
        "opwright_acme.plugin",
        3,
    )
    assert ended["left_out"] is True


def test_after_retry_the_next_process_imports_the_plugin_again(site, left_out):
    left_out.write_text(_table().replace("{name}", "acme"))
    os.utime(left_out, ns=(0, 0))
    assert look(site)[0] == []
    done = site.command("doctor", "--retry", "acme")
    assert done.returncode == 0
    assert "3 notes about plugin 'acme' removed: the next process imports it again" in done.stdout
    assert look(site)[:2] == (["acme.swish"], [])


def test_the_error_for_a_retry_of_an_unknown_plugin_suggests_the_nearest(site, left_out):
    done = site.command("doctor", "--retry", "acne")
    assert done.returncode == 2
    assert "doctor: --retry must name an installed plugin, got 'acne'; did you mean 'acme'?" in (
        done.stderr
    )


def test_a_plugin_with_a_changed_file_is_retried(site, left_out):
    left_out.write_text(_table().replace("{name}", "acme"))
    assert look(site)[:2] == (["acme.swish"], [])


def test_a_plugin_with_a_new_version_is_retried(site, left_out):
    left_out.write_text(_table().replace("{name}", "acme"))
    os.utime(left_out, ns=(0, 0))
    [info] = site.folder.glob("*.dist-info")
    info.rename(info.with_name("opwright_acme-1.1.dist-info"))
    assert look(site)[:2] == (["acme.swish"], [])


def test_an_unwritable_cache_is_harmless(site, tmp_path):
    site.add("acme")
    blocked = tmp_path / "file"
    blocked.write_text("")
    types, failures, warned = look(site, OPWRIGHT_CACHE_DIR=str(blocked / "cache"))
    assert (types, failures, warned) == (["acme.swish"], [], "")


def test_importing_indexed_plugins_does_not_read_or_write_notes(site):
    site.add("acme")
    look(site)
    code = """
    import os, sys
    opened = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0]))
                     if event in ("open", "os.listdir") else None)
    from opwright.context.context import current_context
    current_context()
    answer = [name for name in opened if "importing-" in name]
    """
    assert site.json(code) == []
    assert notes(site) == []


def test_crashes_in_the_child_process_of_doctor_do_not_leave_a_note(site):
    site.add("acme", ENDS["exit"][0])
    assert site.command("doctor").returncode == 1
    assert notes(site) == []
