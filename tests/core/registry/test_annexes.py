"""Annexes are objects that a plugin provides for other packages, by topic and subject."""

from __future__ import annotations

import pytest

from opwright import plugin
from opwright.errors import MissingRequirementError, PluginError, RegistrationError
from opwright.registry import AnnexRegistry
from sites import HEAD, TABLE
from swish_operators import ACME, OTHER

ANNEXES = """
@plugin.hookimpl
def opwright_annexes(registry):
    registry.add("onnx", "Swish", "opwright_{name}.onnx:SWISH")
    registry.add("onnx", "aten::silu.out", "opwright_{name}.onnx:SILU")
    registry.add("torch", "Swish", "opwright_{name}.gone:SWISH")
"""

LOOK = """
import sys
import opwright as ow
annexes = ow.current_context().annexes
"""

SECOND_PROCESS = """
answer = {
    "state": ow.current_context().report.index_state,
    "subjects": [(entry.subject, entry.package.label) for entry in annexes.entries("onnx")],
    "imported": [name for name in sys.modules if name.startswith("opwright_")],
    "value": annexes.get("onnx", "Swish").load(),
    "kept": annexes.get("onnx", "Swish").load() is annexes.get("onnx", "Swish").load(),
}
"""


@pytest.fixture
def annexed(site):
    """A site with a plugin that names three annexes, one of them in a missing module."""
    site.add("acme", TABLE + ANNEXES, modules={"onnx": "SWISH = [1, 2]\nSILU = 3\n"})
    return site


def test_annexes_are_indexed_and_imported_on_request(annexed):
    first, second = (annexed.json(LOOK + SECOND_PROCESS) for _ in range(2))
    assert (first.pop("state"), second.pop("state")) == ("written", "read")
    assert first.pop("imported") == ["opwright_acme", "opwright_acme.plugin"]
    assert second.pop("imported") == []
    label = "opwright-acme 1.0"
    subjects = [["Swish", label], ["aten::silu.out", label]]
    assert first == second == {"subjects": subjects, "value": [1, 2], "kept": True}


def test_the_error_for_an_annex_that_cannot_be_imported_names_its_plugin_topic_and_subject(annexed):
    answer = annexed.json(
        f"""{LOOK}
from opwright.errors import PluginError
try:
    annexes.get("torch", "Swish").load()
except PluginError as error:
    answer = [str(error), len(ow.current_context().failures), annexes.get("onnx", "Swish").load()]
"""
    )
    assert answer == [
        (
            "torch[Swish]: 'opwright_acme.gone:SWISH' of opwright-acme 1.0 failed to load, got "
            "ModuleNotFoundError: No module named 'opwright_acme.gone'; opwright-acme 1.0 is "
            "broken, its own module 'opwright_acme.gone' is missing: "
            "pip install --force-reinstall --no-deps opwright-acme"
        ),
        0,
        [1, 2],
    ]


def test_the_later_of_two_plugins_with_the_same_annex_is_quarantined(annexed):
    annexed.add("other", HEAD + ANNEXES)
    assert annexed.failures() == [
        [
            "other",
            "onnx[Swish]: annex is registered twice, by opwright-acme 1.0 and opwright-other 1.0",
        ]
    ]


def test_a_disabled_plugin_does_not_provide_annexes(annexed):
    annexed.add("other")
    code = f"{LOOK}\nanswer = len(annexes.entries('onnx'))"
    assert annexed.json(code, OPWRIGHT_PLUGINS="other") == 0


def test_an_annex_must_name_a_module_of_its_distribution(site):
    hook = "@plugin.hookimpl\ndef opwright_annexes(registry):\n    "
    site.add("acme", HEAD + hook + 'registry.add("onnx", "Relu", "json:dumps")\n')
    state = "answer = ow.current_context().report.index_state"
    assert [site.json(LOOK + state) for _ in range(2)] == ["written", "written"]


def test_the_error_for_a_missing_annex_names_the_nearest_subject_or_the_package():
    annexes = AnnexRegistry()
    annexes.add("layers", "Relu", print, ACME)
    with pytest.raises(
        MissingRequirementError, match=r"^layers\[Relo\]: .*; did you mean 'Relu'\?$"
    ):
        annexes.get("layers", "Relo")
    with pytest.raises(
        MissingRequirementError, match=r"^other\[Relu\]: no plugin provides [a-z ]+$"
    ):
        annexes.get("other", "Relu")
    with pytest.raises(MissingRequirementError, match=r'to get it: pip install "opwright\[dev\]"$'):
        annexes.get("kit", "profile")
    assert annexes.find("jax", "Relu") is None
    assert annexes.entries("jax") == ()


def test_a_duplicate_annex_is_refused():
    annexes = AnnexRegistry()
    before = annexes.epoch.now
    annexes.add("onnx", "Relu", print, ACME)
    assert annexes.get("onnx", "Relu").load() is print
    assert annexes.epoch.now == before + 1
    with pytest.raises(
        RegistrationError,
        match=r"onnx\[Relu\]: annex .* twice, by opwright-acme 1.0 and opwright-other 2.0",
    ):
        annexes.add("onnx", "Relu", print, OTHER)
    registrar = plugin.AnnexRegistrar(ACME)
    registrar.add("onnx", "Relu", "m:X")
    with pytest.raises(RegistrationError, match=r"onnx\[Relu\]: registered twice by opwright-acme"):
        registrar.add("onnx", "Relu", "m:Y")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("Onnx", "Relu", "m:X"), "topic must be lower_snake"),
        (("onnx", "", "m:X"), "subject of an annex must be a string of one line, got ''"),
        (("onnx", "a\nb", "m:X"), "must be a string of one line"),
        (("onnx", 3, "m:X"), "must be a string of one line, got 3"),
        (("onnx", "Relu", "lib/a.so"), r"^onnx.*target must be a string 'module:attribute', got"),
    ],
)
def test_a_malformed_annex_is_refused(given, words):
    with pytest.raises(RegistrationError, match=words):
        plugin.AnnexRegistrar(ACME).add(*given)
    with pytest.raises(RegistrationError, match=words):
        AnnexRegistry().add(*given, ACME)


def test_a_target_that_is_not_a_module_raises_when_requested():
    annexes = AnnexRegistry()
    annexes.add("onnx", "Relu", "math:no_such_name", ACME)
    with pytest.raises(PluginError, match=r"^onnx\[Relu\]: 'math:no_such_name' of opwright-acme"):
        annexes.get("onnx", "Relu").load()


def test_entries_can_be_listed_while_another_thread_registers_an_entry(monkeypatch):
    annexes = AnnexRegistry()
    annexes.add("layers", "Relu", print, ACME)
    find = annexes._find

    def find_after_another(name):
        if len(annexes._registered) == 1:
            annexes.add("layers", "Gelu", print, ACME)
        return find(name)

    monkeypatch.setattr(annexes, "_find", find_after_another)
    assert [entry.subject for entry in annexes.entries("layers")] == ["Relu"]
    assert [entry.subject for entry in annexes.entries("layers")] == ["Gelu", "Relu"]
