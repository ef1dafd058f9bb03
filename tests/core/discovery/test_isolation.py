"""Broken plugins are quarantined, and the other installed plugins keep working."""

from __future__ import annotations

import pytest

from sites import HEAD, KERNEL_HOOK, OP_HOOK

BROKEN = {
    "missing_module": ("import not_there\n", "ModuleNotFoundError: No module named 'not_there'"),
    "raises": ("1 / 0\n", "ZeroDivisionError: division by zero"),
    "ends_process": ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    "bad_syntax": ("def :\n", "SyntaxError: invalid syntax (plugin.py, line 1)"),
    "no_hook": ("x = 1\n", "a plugin must implement a hook, got none"),
    "wrong_parameter": (
        HEAD + "@plugin.hookimpl\ndef opwright_ops(reg):\n    pass\n",
        "hook with a wrong signature, got opwright_ops(reg); write def opwright_ops(registry)",
    ),
    "no_parameter": (
        HEAD + "@plugin.hookimpl\ndef opwright_ops():\n    pass\n",
        "hook with a wrong signature, got opwright_ops without the parameter 'registry'",
    ),
    "unknown_hook": (
        HEAD + "@plugin.hookimpl\ndef opwright_op(registry):\n    pass\n",
        "unknown hook, got 'opwright_op'; did you mean 'opwright_ops'?",
    ),
    "unprefixed": (
        OP_HOOK + "registry.add('softmax', 'a:B')\n",
        "softmax: unprefixed operator types belong to opwright-std, got one from opwright-unpre",
    ),
    "foreign_prefix": (
        OP_HOOK + "registry.add('acme.other', 'a:B')\n",
        "acme.other: operator type must begin with the plugin name 'foreign_prefix'",
    ),
    "object_target": (
        OP_HOOK + "registry.add('object_target.x', object())\n",
        "object_target.x: target must be a string 'module:attribute'",
    ),
    "bad_dtype": (
        KERNEL_HOOK + "registry.add('relu', device='cpu', dtypes=['flot32'], kernel='a:b')\n",
        "relu[cpu, bad_dtype]: unknown dtype, got 'flot32'; did you mean 'float32'?",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_quarantined_and_other_plugins_work(site, name):
    table, reason = BROKEN[name]
    site.add("acme")
    site.add(name, table)
    site.add("zebra")
    answer = site.json("""
    from opwright.context.context import current_context
    context = current_context()
    context.ops.get("zebra.swish")
    answer = [
        context.ops.types(),
        [[f.package.plugin, f.package.version, f.reason] for f in context.failures],
    ]
    """)
    assert answer[0] == ["acme.swish", "zebra.swish"]
    [[plugin, version, text]] = answer[1]
    assert (plugin, version) == (name, "1.0")
    assert text.startswith(reason)


def test_registrations_of_a_plugin_that_raises_are_discarded(site):
    table = """
    import opwright.plugin as plugin

    @plugin.hookimpl
    def opwright_ops(registry):
        registry.add("half.one", "opwright_half.swish:SWISH")

    @plugin.hookimpl
    def opwright_kernels(registry):
        registry.add("half.one", device="cpu", dtypes="*", kernel="opwright_half.swish:swish")
        raise RuntimeError("the other half")
    """
    site.add("half", table)
    answer = site.json("""
    from opwright.context.context import current_context
    context = current_context()
    answer = [context.ops.types(all=True), context.kernels.op_types(),
              [f.reason for f in context.failures]]
    """)
    assert answer == [[], [], ["RuntimeError: the other half"]]


def test_the_traceback_shows_only_frames_of_the_plugin(site):
    table = """
    def inner():
        raise ValueError("deep")

    inner()
    """
    site.add("deep", table)
    text = site.python("""
    from opwright.context.context import current_context
    print(current_context().failures[0].traceback)
    """)
    assert "in inner" in text
    assert "ValueError: deep" in text
    assert "discovery" not in text
    assert "importlib" not in text


def test_strict_mode_raises_the_first_failure_with_its_cause(site):
    site.add("acme")
    site.add("boom", "1 / 0\n")
    code = """
    from opwright.context.context import current_context
    from opwright.errors import PluginError
    try:
        current_context()
    except PluginError as error:
        answer = [str(error), repr(error.__cause__)]
    """
    text, cause = site.json(code, OPWRIGHT_STRICT="1")
    assert text.startswith(
        "plugin 'boom' of opwright-boom 1.0 failed to load: ZeroDivisionError: division by zero; "
    )
    assert cause == "ZeroDivisionError('division by zero')"
    assert site.failures(OPWRIGHT_STRICT="0")[0][0] == "boom"


def test_strict_mode_also_raises_for_a_clash(site):
    clash = KERNEL_HOOK + (
        "registry.add('acme.swish', device='cpu', dtypes=['float64'], kernel='a:b', library='acme')"
    )
    site.add("acme")
    site.add("rival", clash)
    [[plugin, reason]] = site.failures()
    assert plugin == "rival"
    assert reason == (
        "acme.swish[cpu, float64, acme]: kernel is registered twice, "
        "by opwright-acme 1.0 and opwright-rival 1.0"
    )
    done = site.run(
        "-c",
        "from opwright.context.context import current_context; current_context()",
        check=False,
        OPWRIGHT_STRICT="1",
    )
    assert reason in done.stderr


@pytest.mark.parametrize("name", ["OPWRIGHT_STRICT", "OPWRIGHT_CHECKED"])
def test_an_invalid_value_of_a_switch_raises(site, name):
    done = site.command("plugins", **{name: "maybe"})
    assert done.returncode == 2
    assert done.stderr == f"opwright: {name}: must be 0 or 1, got 'maybe'; set it to 1\n"


def test_plugins_outside_the_allow_list_are_not_imported(site):
    site.add("acme")
    site.add("boom", "1 / 0\n")
    code = """
    import sys
    from opwright.context.context import current_context
    context = current_context()
    answer = [context.ops.types(), len(context.failures), "opwright_boom" in sys.modules,
              [package.plugin for package in context.report.disabled]]
    """
    answer = site.json(code, OPWRIGHT_PLUGINS="acme", OPWRIGHT_STRICT="1")
    assert answer == [["acme.swish"], 0, False, ["boom"]]


def test_an_unknown_name_in_the_allow_list_raises(site):
    site.add("acme")
    done = site.command("plugins", OPWRIGHT_PLUGINS="acne")
    assert done.returncode == 2
    assert done.stderr == (
        "opwright: OPWRIGHT_PLUGINS: no plugin of this name is installed, got 'acne'; "
        "did you mean 'acme'?\n"
    )


def test_an_empty_allow_list_allows_all(site):
    site.add("acme")
    assert site.command("plugins", OPWRIGHT_PLUGINS=" , ").stdout.count("loaded") == 1


def test_the_error_names_the_plugin_that_the_allow_list_excludes(site):
    site.add("acme")
    site.add("other")
    done = site.command("ops", "other.swish", OPWRIGHT_PLUGINS="acme")
    assert "installed, but not named in OPWRIGHT_PLUGINS: 'other'" in done.stderr


def test_a_clash_is_resolved_by_the_fixed_plugin_order(site):
    hook = KERNEL_HOOK + (
        "registry.add('x.y', device='cpu', dtypes=['float64'], kernel='a:b', library='fast')"
    )
    for name in ("zulu", "alfa", "mike"):
        site.add(name, hook)
    site.add("cuda", hook, distribution="opwright-cuda")
    expected = ["alfa", "mike", "zulu"]
    assert [plugin for plugin, _ in site.failures()] == expected
    assert [plugin for plugin, _ in site.failures()] == expected  # also when read from the index


def test_only_opwright_std_may_provide_unprefixed_operators(site):
    hook = OP_HOOK + "registry.add('relu', 'opwright_std.swish:SWISH')\n"
    site.add("std", hook)
    assert site.failures() == []


def test_a_third_party_plugin_named_std_must_not_provide_unprefixed_operators(site):
    hook = OP_HOOK + "registry.add('relu', 'opwright_std.swish:SWISH')\n"
    site.add("std", hook, distribution="evil")
    [[_, reason]] = site.failures()
    assert reason.startswith("relu: unprefixed operator types belong to opwright-std, got one from")


@pytest.mark.parametrize("name", ["Acme", "acme-ops", "class", "1st"])
def test_a_plugin_name_must_be_a_python_identifier(site, name):
    site.add("acme", entry=f"{name} = opwright_acme.plugin")
    [[plugin, reason]] = site.failures()
    assert plugin == name
    assert "name of an entry point must be lower_snake" in reason


def test_a_plugin_can_be_an_object_instead_of_a_module(site):
    table = """
    import opwright.plugin as plugin

    class Table:
        @plugin.hookimpl
        def opwright_ops(self, registry):
            registry.add("acme.swish", "opwright_acme.swish:SWISH")

    TABLE = Table()
    """
    site.add("acme", table, entry="acme = opwright_acme.plugin:TABLE")
    assert site.failures() == []


def test_a_hook_module_that_reads_the_registries_is_reported(site):
    site.add("acme", "from opwright.context.context import current_context\ncurrent_context()\n")
    [[_, reason]] = site.failures()
    assert reason.startswith("discovery: a plugin used the registries while they were being filled")


def test_ctrl_c_is_not_a_failure_of_a_plugin(site):
    site.add("acme", "raise KeyboardInterrupt\n")
    done = site.run(
        "-c", "from opwright.context.context import current_context; current_context()", check=False
    )
    assert "KeyboardInterrupt" in done.stderr


def test_importing_opwright_does_not_import_plugins_or_large_packages(site):
    site.add("boom", "1 / 0\n")
    answer = site.json("""
    import sys
    before = set(sys.modules)
    import opwright, opwright.op, opwright.kernel
    new = set(sys.modules) - before
    answer = sorted(m for m in new if m.startswith(("opwright_", "google", "importlib.metadata")))
    """)
    assert answer == []


def test_a_report_of_many_failures_is_abbreviated(site):
    for i in range(8):
        site.add(f"p{i}", "1 / 0\n")
    text = site.command("ops", "relu").stderr
    assert text.count("failed to load: ") == 5
    assert "further failed plugins: 3; run: opwright doctor" in text


def test_a_long_reason_is_abbreviated(site):
    site.add("acme", "raise ValueError('a' * 100_000)\n")
    for text in (site.command("plugins").stdout, site.command("ops", "relu").stderr):
        assert "ValueError: aaaa" in text
        assert "aaa... (of 100,000 characters)" in text
        assert len(text) < 6_000


def test_a_failed_plugin_is_skipped_by_refresh_until_it_is_fixed(site):
    package = site.add("acme", "1 / 0\n")
    answer = site.json(f"""
    from pathlib import Path
    from opwright.context.context import current_context
    context = current_context()
    before = [context.ops.types(), context.epoch.now]
    Path({str(package / "plugin.py")!r}).write_text('''
    import opwright.plugin as plugin

    @plugin.hookimpl
    def opwright_ops(registry):
        registry.add("acme.swish", "opwright_acme.swish:SWISH")
    ''')
    context.refresh()
    answer = [before[0], context.ops.types(), context.epoch.now > before[1],
              len(context.failures)]
    """)
    assert answer == [[], ["acme.swish"], True, 0]


def test_concurrent_discoveries_share_one_context(site):
    site.add(
        "acme",
        "import time\ntime.sleep(0.2)\nfrom opwright_acme.table import *\n",
        modules={"table": OP_HOOK + "registry.add('acme.swish', 'opwright_acme.swish:SWISH')"},
    )
    answer = site.json("""
    import threading
    from opwright.context.context import current_context
    found = []
    threads = [threading.Thread(target=lambda: found.append(current_context())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = [len(set(map(id, found))), found[0].ops.types()]
    """)
    assert answer == [1, ["acme.swish"]]


def test_importing_a_plugin_while_another_thread_runs_discovery_does_not_hang(site):
    # Thread one holds the import lock of a module and needs a Context; thread two creates a Context
    # and needs the module. A lock around discovery would cause a deadlock.
    table = "from opwright_acme import layers\n" + OP_HOOK
    table += "registry.add('acme.swish', 'opwright_acme.swish:SWISH')\n"
    layers = """
    import time
    from opwright.context.context import current_context

    time.sleep(0.5)
    current_context()
    """
    site.add("acme", table, modules={"layers": layers})
    answer = site.json("""
    import threading, time
    import opwright.plugin
    from opwright.context.context import current_context
    use = threading.Thread(target=lambda: __import__("opwright_acme.layers"), daemon=True)
    use.start()
    time.sleep(0.1)
    discover = threading.Thread(target=current_context, daemon=True)
    discover.start()
    discover.join(100)
    use.join(100)
    answer = [discover.is_alive(), use.is_alive()]
    """)
    assert answer == [False, False]
