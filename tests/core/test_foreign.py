"""Plugin exceptions can be described, and are not confused with exceptions of signal handlers."""

from __future__ import annotations

import ast
import functools
import signal
from pathlib import Path

import pytest

import opwright
from opwright.foreign import describe_error, raise_if_of_signal, show


class TimeIsUpError(Exception):
    """Raised by signal handlers in these tests."""


def raise_it(number, frame):
    raise TimeIsUpError


def remove_and_raise(*arguments):
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    raise TimeIsUpError


def forget_and_raise(number, frame):
    del number, frame
    raise TimeIsUpError


def raise_for(what, number, frame):
    raise TimeIsUpError(what)


class Handler:
    def __call__(self, number, frame):
        self.stop()

    def stop(self):
        raise TimeIsUpError

    def method(self, number, frame):
        raise TimeIsUpError


HANDLERS = {
    "function": raise_it,
    "one that removes itself": remove_and_raise,
    "one that forgets its arguments": forget_and_raise,
    "partial": functools.partial(raise_for, "it"),
    "object": Handler(),
    "method": Handler().method,
    "lambda": lambda *arguments: raise_for(*arguments[:0], "it", *arguments),
}


@pytest.fixture(params=HANDLERS)
def handler(request):
    """Install a handler of SIGUSR1."""
    before = signal.signal(signal.SIGUSR1, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


def healthy():
    signal.raise_signal(signal.SIGUSR1)


def wrapping():
    try:
        healthy()
    except Exception:  # noqa: BLE001 - as plugins do
        raise ValueError("wrapped")  # noqa: B904 - likewise


@pytest.mark.parametrize("plugin", [healthy, wrapping])
def test_an_exception_raised_by_a_signal_handler_is_reraised_unchanged(handler, plugin):
    with pytest.raises(TimeIsUpError):  # noqa: PT012 - the error is handled as wrappers do
        try:
            plugin()
        except Exception as error:  # noqa: BLE001 - likewise
            describe_error(error)


def test_an_exception_that_a_caller_is_handling_is_not_reraised(handler):
    try:
        healthy()
    except TimeIsUpError:
        with pytest.raises(ValueError, match="torn") as raised:
            raise ValueError("torn")  # noqa: B904 - so that the first error is its context
        assert raised.value.__context__ is not None
        assert describe_error(raised.value) == "ValueError: torn"


def test_a_plugin_exception_is_not_mistaken_for_a_signal_handler_exception(handler):
    def plugin(number, frame):
        raise TimeIsUpError

    with pytest.raises(TimeIsUpError) as raised:
        plugin(1, None)
    raise_if_of_signal(raised.value)


class OddError(Exception):
    def __init__(self, text):
        self.text = text

    def __str__(self):
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text


@pytest.mark.parametrize(
    ("text", "described"),
    [
        (ValueError(), "OddError: <its __str__ raises ValueError>"),
        (SystemExit(), "OddError: <its __str__ raises SystemExit>"),
        (3, "OddError: <its __str__ raises TypeError>"),
        ("", "OddError"),
        ("a" * 4_000, f"OddError: {'a' * 4_000}"),
        ("a" * 100_000, f"OddError: {'a' * 4_000}... (of 100,000 characters)"),
        ("\x1b[2J\u202eone\ntwo\ud800", "OddError: \\x1b[2J\\u202eone\ntwo\\ud800"),
    ],
)
def test_every_exception_can_be_described(text, described):
    assert describe_error(OddError(text)) == described


def test_printable_text_is_shown_unchanged():
    assert show("Größe 3 µm, 名前\n\tx") == "Größe 3 µm, 名前\n\tx"
    assert show("a\nb", keep="") == "a\\nb"


DESCRIBING = {
    "describe_error",
    "text_of_error",
    "raise_if_of_signal",
    "describe_failure",
    "_failed",
}
"""Functions that re-raise the exception of a signal handler."""


def catchers():
    """Yield the locations in the core that catch every exception without re-raising it."""
    folder = Path(opwright.__file__).parent
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ExceptHandler) or node.type is None:
                continue
            words = {item.id for item in ast.walk(node.type) if isinstance(item, ast.Name)}
            if words & {"Exception", "BaseException"}:
                last = node.body[-1]
                if not (isinstance(last, ast.Raise) and last.exc is None):
                    yield pytest.param(node, id=f"{path.relative_to(folder)}:{node.lineno}")


@pytest.mark.parametrize("node", list(catchers()))
def test_catching_plugin_exceptions_does_not_catch_signal_handler_exceptions(node):
    calls = {
        item.func.id
        for item in ast.walk(node)
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name)
    }
    assert calls & DESCRIBING
