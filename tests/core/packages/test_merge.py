"""Records are merged per plugin, completely or not at all, and clashes name both plugins."""

from __future__ import annotations

import pytest

from opwright.discovery.discover import merge
from opwright.discovery.scan import Source
from opwright.packages import (
    AnnexRegistration,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    Package,
    PassRegistration,
)
from opwright.plugin import PluginFailure, PluginRecord


def record(name, *, distribution=None, ops=(), kernels=(), devices=(), passes=(), annexes=()):
    source = Source(name, f"{name}.plugin", distribution or f"opwright-{name}", "1.0", "", 0)
    return PluginRecord(
        source,
        tuple(OpRegistration(type, "m:A", False) for type in ops),
        tuple(
            KernelRegistration(op, device, dtypes, library, "m:k", 50, (), False, True, False, ())
            for op, device, dtypes, library in kernels
        ),
        tuple(DeviceRegistration(device, "m:d") for device in devices),
        tuple(PassRegistration(item, "fuse", "m:p", "*") for item in passes),
        annexes=tuple(AnnexRegistration(*pair, "m:X") for pair in annexes),
    )


KEY = ("relu", "cpu", ("float32", "float64"), "fast")


def test_all_registrations_of_a_plugin_are_merged():
    given = {"ops": ["a.x"], "kernels": [KEY], "devices": ["npu"], "passes": ["p"]}
    found = merge([record("a", **given, annexes=[("onnx", "Relu")])])
    assert found.ops.types() == ["a.x"]
    assert len(found.kernels.entries("relu")) == 2
    assert found.devices.names() == ["cpu", "npu"]
    assert found.passes.names() == ("p",)
    assert [entry.subject for entry in found.annexes.entries("onnx")] == ["Relu"]
    assert [package.plugin for package in found.report.loaded] == ["a"]


@pytest.mark.parametrize(
    ("one", "two", "what"),
    [
        ({"kernels": [KEY]}, {"kernels": [KEY]}, r"relu\[cpu, float32, fast\]: kernel"),
        (
            {"kernels": [KEY]},
            {"kernels": [("relu", "cpu", ("float64",), "fast")]},
            r"relu\[cpu, float64, fast\]: kernel",
        ),
        ({"devices": ["npu"]}, {"devices": ["npu"]}, "npu: device"),
        ({"passes": ["p"]}, {"passes": ["p"]}, "p: pass"),
        ({"annexes": [("onnx", "Relu")]}, {"annexes": [("onnx", "Relu")]}, "onnx[Relu]: annex"),
        ({"ops": ["same.x"]}, {"ops": ["same.x"]}, "same.x: operator"),
    ],
)
def test_the_later_of_two_clashing_plugins_is_quarantined_completely(one, two, what):
    found = merge([record("a", **one), record("b", **two | {"ops": ["b.y", *two.get("ops", ())]})])
    [failure] = found.report.failures
    assert failure.package.distribution == "opwright-b"
    expected = f"{what} is registered twice, by opwright-a 1.0 and opwright-b 1.0"
    assert failure.reason == expected.replace("\\", "")
    assert "b.y" not in found.ops
    assert [package.plugin for package in found.report.loaded] == ["a"]


def test_registrations_of_a_quarantined_plugin_do_not_clash():
    late = record("c", ops=["c.z"], kernels=[("tanh", "cpu", ("*",), "fast")])
    found = merge(
        [
            record("a", kernels=[KEY]),
            record("b", kernels=[("tanh", "cpu", ("*",), "fast"), KEY]),
            late,
        ]
    )
    assert [failure.package.plugin for failure in found.report.failures] == ["b"]
    assert [entry.package.plugin for entry in found.kernels.entries("tanh")] == ["c"]


@pytest.mark.parametrize(
    "other",
    [
        ("relu", "cuda", ("float32",), "fast"),
        ("relu", "cpu", ("float16",), "fast"),
        ("relu", "cpu", ("*",), "fast"),
        ("relu", "cpu", ("float32",), "slow"),
        ("tanh", "cpu", ("float32",), "fast"),
    ],
)
def test_keys_that_differ_in_one_component_do_not_clash(other):
    found = merge([record("a", kernels=[KEY]), record("b", kernels=[other])])
    assert found.report.failures == ()


def test_only_the_first_of_two_plugins_with_the_same_name_is_used():
    found = merge([record("a", distribution="one"), record("a", distribution="two")])
    [failure] = found.report.failures
    assert failure.reason == "a: name of a plugin is used twice, by one 1.0 and two 1.0"


def test_a_plugin_with_operators_must_not_be_named_like_an_operator():
    standard = record("std", distribution="opwright-std", ops=["softmax"])
    found = merge([standard, record("softmax", ops=["softmax.fast"])])
    [failure] = found.report.failures
    assert failure.reason.startswith("softmax: name of an operator and of a plugin is used twice")


def test_a_plugin_that_registers_the_host_device_is_refused():
    [failure] = merge([record("a", devices=["cpu"])]).report.failures
    assert "cpu: device is registered twice, by opwright (built in)" in failure.reason


def test_load_failures_and_clashes_are_reported_together():
    failed = PluginFailure(Package("x", "opwright-x", "1"), "ImportError: no", "", "pip install x")
    found = merge([record("a", kernels=[KEY]), record("b", kernels=[KEY])], [failed])
    assert [failure.package.plugin for failure in found.report.failures] == ["x", "b"]


def test_the_advice_for_a_clash_names_both_distributions():
    [failure] = merge([record("a", kernels=[KEY]), record("b", kernels=[KEY])]).report.failures
    assert failure.advice == "pip uninstall opwright-b (or opwright-a)"
