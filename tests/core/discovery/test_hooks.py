"""Hooks and registrars: which registrations are allowed, and until when."""

from __future__ import annotations

import inspect

import pytest

from opwright import plugin
from opwright.discovery.load import load, load_all
from opwright.discovery.scan import Source
from opwright.errors import PluginError, RegistrationError
from opwright.registry import DeviceRegistry, PassRegistry
from swish_operators import ACME, OTHER

KERNEL = {"device": "cpu", "dtypes": ["float32"], "kernel": "m:k"}


def test_every_hook_has_a_specification_with_a_docstring():
    for name in plugin.HOOKS:
        hook = getattr(plugin, name)
        assert list(inspect.signature(hook).parameters) == ["registry"]
        assert inspect.getdoc(hook)
    public = [name for name in vars(plugin) if name.startswith("opwright_")]
    assert sorted(public) == sorted(plugin.HOOKS)


def test_the_default_library_of_a_kernel_is_the_plugin_name():
    registrar = plugin.KernelRegistrar(ACME)
    registrar.add("relu", **KERNEL)
    registrar.add("relu", **KERNEL, library="fast")
    assert [kernel.library for kernel in registrar.additions] == ["acme", "fast"]
    assert registrar.additions[0].priority == 50


def test_a_plugin_that_adds_an_object_twice_is_refused():
    ops = plugin.OpRegistrar(ACME)
    ops.add("acme.x", "m:X")
    with pytest.raises(RegistrationError, match="acme.x: registered twice by opwright-acme 1.0"):
        ops.add("acme.x", "m:Y")
    kernels = plugin.KernelRegistrar(ACME)
    kernels.add("relu", **KERNEL)
    with pytest.raises(RegistrationError, match=r"relu\[cpu, float32, acme\]: registered twice"):
        kernels.add("relu", **KERNEL)
    devices = plugin.DeviceRegistrar(ACME)
    devices.add("npu", "m:D")
    with pytest.raises(RegistrationError, match="npu: registered twice"):
        devices.add("npu", "m:D")
    passes = plugin.PassRegistrar(ACME)
    passes.add("fold", phase="fuse", function="m:p")
    with pytest.raises(RegistrationError, match="fold: registered twice"):
        passes.add("fold", phase="fuse", function="m:p")


def test_a_hook_must_name_a_kernel_instead_of_passing_the_object():
    with pytest.raises(RegistrationError, match="target must be a string 'module:attribute'"):
        plugin.KernelRegistrar(ACME).add("relu", **KERNEL | {"kernel": print})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"phase": "fusing"}, r"unknown phase, got 'fusing'; did you mean 'fuse'\?"),
        ({"operators": "relu"}, r"operators must be a list of operator types, got 'relu'"),
        ({"operators": ["a.*"]}, r"operators must be a list of operator types, got \['a\.\*'\]"),
        ({"device": "Cpu"}, "device must be lower_snake"),
        ({"function": "no"}, "'module:attribute'"),
        ({"name": "Fold"}, "pass must be lower_snake"),
    ],
)
def test_a_malformed_pass_is_refused(given, words):
    values = {"name": "fold", "phase": "fuse", "function": "m:p", **given}
    with pytest.raises(RegistrationError, match=words):
        plugin.PassRegistrar(ACME).add(values.pop("name"), **values)
    values = {"name": "fold", "phase": "fuse", "function": "m:p", **given}
    with pytest.raises(RegistrationError, match=words):
        PassRegistry().add(values.pop("name"), package=ACME, **values)


def test_a_registrar_refuses_additions_after_its_hook_has_returned():
    registrar = plugin.OpRegistrar(ACME)
    registrar.close()
    with pytest.raises(PluginError, match="acme.late: must be added while the hook of its plugin"):
        registrar.add("acme.late", "m:X")
    assert registrar.additions == []


def test_loading_closes_the_registrars(site, monkeypatch):
    table = """
    import opwright.plugin as plugin
    KEPT = []

    @plugin.hookimpl
    def opwright_ops(registry):
        KEPT.append(registry)
    """
    site.add("keeper", table)
    monkeypatch.syspath_prepend(str(site.folder))
    record = load(Source("keeper", "opwright_keeper.plugin", "opwright-keeper", "1.0", "", 0))
    import opwright_keeper.plugin

    with pytest.raises(PluginError, match="while the hook of its plugin runs"):
        opwright_keeper.plugin.KEPT[0].add("keeper.x", "m:X")
    assert record.ops == ()
    assert record.load_ms > 0


def test_loading_depends_only_on_the_source(site, monkeypatch):
    site.add("plain")
    monkeypatch.syspath_prepend(str(site.folder))
    good = Source("plain", "opwright_plain.plugin", "opwright-plain", "1.0", "", 0)
    bad = good._replace(name="gone", target="opwright_plain.gone")
    records, failures = load_all([bad, good])
    assert [op.type for op in records[0].ops] == ["plain.swish"]
    assert [kernel.dtypes for kernel in records[0].kernels] == [("float32", "float64"), ("*",)]
    assert [failure.package.plugin for failure in failures] == ["gone"]
    assert failures[0].advice == (
        "opwright-plain 1.0 is broken, its own module 'opwright_plain.gone' is missing: "
        "pip install --force-reinstall --no-deps opwright-plain"
    )


def test_devices_are_registered_and_found_by_name():
    devices = DeviceRegistry()
    before = devices.epoch.now
    devices.add("npu", "builtins:object", ACME)
    assert devices.names() == ["cpu", "npu"]
    assert devices.get("npu").load() is object
    assert devices.find("tpu") is None
    with pytest.raises(LookupError, match=r"nqu: no device .*; did you mean 'npu'\?"):
        devices.get("nqu")
    with pytest.raises(LookupError, match=r'to get it: pip install "opwright\[cuda\]"'):
        devices.get("cuda")
    with pytest.raises(
        RegistrationError, match="npu: .* twice, by opwright-acme 1.0 and opwright-other 2.0"
    ):
        devices.add("npu", "m:D", OTHER)
    with pytest.raises(RegistrationError, match="cpu: device is registered twice"):
        devices.add("cpu", "m:D", OTHER)
    assert devices.epoch.now == before + 1


def test_passes_are_ordered_by_phase_then_device_then_registration():
    passes = PassRegistry()
    for name, phase, device in (
        ("late", "memory", "*"),
        ("fourth", "fuse", "*"),
        ("second", "fuse", "cpu"),
        ("first", "canonicalize", "*"),
        ("third", "fuse", "cuda"),
        ("fifth", "fuse", "*"),
    ):
        passes.add(name, phase=phase, function=print, package=ACME, device=device)
    assert passes.names() == ("first", "second", "third", "fourth", "fifth", "late")
    chosen = passes.of_phases(("canonicalize", "fuse"), "cpu")
    assert [entry.name for entry in chosen] == ["first", "second", "fourth", "fifth"]
    assert chosen[0].load() is print
    with pytest.raises(RegistrationError, match=r"frist: no pass .*; did you mean 'first'\?"):
        passes.get("frist")
    with pytest.raises(RegistrationError, match="first: pass is registered twice"):
        passes.add("first", phase="fuse", function=print, package=OTHER)


def test_a_pass_must_be_a_function():
    passes = PassRegistry()
    passes.add("version", phase="fuse", function="sys:maxsize", package=ACME)
    with pytest.raises(RegistrationError, match="version: a pass must be a function, got"):
        passes.get("version").load()
