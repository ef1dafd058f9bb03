"""Every hook is documented with its exact signature, and used by a test."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from opwright import plugin

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hooks.md"
REGISTRARS = {
    "opwright_ops": plugin.OpRegistrar,
    "opwright_kernels": plugin.KernelRegistrar,
    "opwright_devices": plugin.DeviceRegistrar,
    "opwright_passes": plugin.PassRegistrar,
    "opwright_options": plugin.OptionRegistrar,
    "opwright_annexes": plugin.AnnexRegistrar,
}


def parameters_of(function: object) -> list[str]:
    """Return the parameters as written, without ``self``."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    plain = signature.replace(return_annotation=inspect.Signature.empty)
    text = re.sub(r"(: )'([^']*)'", r"\1\2", str(plain))
    return [part for part in split(text[1:-1]) if part != "self"]


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts = re.split(r",\s*(?![^\[(]*[\])])", text.strip())
    return [part.strip() for part in parts if part.strip()]


def sections() -> dict[str, str]:
    found = re.split(r"^## (\w+)(.*)\n", PAGE.read_text(), flags=re.MULTILINE)
    return {name: head + "\n" + body for name, head, body in zip(*[iter(found[1:])] * 3)}


def test_the_page_lists_exactly_the_existing_hooks() -> None:
    assert tuple(sections()) == plugin.HOOKS
    assert set(REGISTRARS) == set(plugin.HOOKS)


@pytest.mark.parametrize("hook", plugin.HOOKS)
def test_a_hook_is_documented_with_its_signature(hook: str) -> None:
    head, body = sections()[hook].split("\n", 1)
    assert split(head.strip("()")) == parameters_of(getattr(plugin, hook))
    added = re.search(r"registry\.add\((.*?)\)\n```", body, re.DOTALL)
    assert added, f"docs/hooks.md: {hook} does not show registry.add"
    assert split(added[1]) == parameters_of(REGISTRARS[hook].add)


@pytest.mark.parametrize("hook", plugin.HOOKS)
def test_each_hook_is_used_by_a_test(hook: str) -> None:
    tests = [path.read_text() for path in (ROOT / "tests" / "core").rglob("test_*.py")]
    assert any(f"def {hook}(" in text for text in tests)
