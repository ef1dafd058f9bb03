"""Collects the kernel instances that tests need, by running the tests without kernels.

Plans are prepared as usual, but their kernels do nothing. Comparisons are disabled, so a test
continues with its next computation.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import opwright as ow
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain

COMPARISONS = [name for name in np.testing.__all__ if name.startswith("assert_")]


@contextlib.contextmanager
def without_comparisons() -> Iterator[None]:
    """Make the assertions of NumPy accept all arrays, in a separate context without plans."""
    with contextlib.ExitStack() as stack:
        for name in COMPARISONS:
            stack.enter_context(patch.object(np.testing, name, lambda *args, **kwargs: None))
        stack.enter_context(ow.context_guard(ow.Context.discover()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def rehearse(items: Sequence[pytest.Item], toolchain: Toolchain) -> None:
    """Run each test as far as possible with the kernels of a toolchain."""
    before = replace_toolchain(toolchain)
    with without_comparisons():
        for item in items:
            assert isinstance(item, pytest.Function)
            with (
                pytest.MonkeyPatch.context() as monkeypatch,
                contextlib.suppress(Exception, pytest.fail.Exception, pytest.skip.Exception),
            ):
                item.obj(**arguments_of(item, monkeypatch))
    replace_toolchain(before)


def arguments_of(item: pytest.Function, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments of a test, whose only fixture can be `monkeypatch`."""
    given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    if "monkeypatch" in inspect.signature(item.obj).parameters:
        given["monkeypatch"] = monkeypatch
    return given
