"""The output of commands: text that a terminal may get, or one JSON document and nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TextIO, cast

from opwright.describe.journal import setting
from opwright.foreign import show

_documents: ContextVar[list[str] | None] = ContextVar("opwright_documents", default=None)


def print_json(data: object) -> None:
    """Print the document of a command with ``--json``, as the only thing on the output."""
    text = json.dumps(data, indent=2)
    documents = _documents.get()
    if documents is None:
        print(text)
    else:
        documents.append(text)


@contextlib.contextmanager
def writing(as_json: bool) -> Iterator[None]:
    """Run a command within the block.

    Of its text, escape sequences are shown and not obeyed: plugins write much of it. With `as_json`
    the output has only what `print_json` gets, and what plugins print while they are imported, also
    from C, goes to the error output.
    """
    if not as_json:
        with contextlib.redirect_stdout(cast("TextIO", _Shown(sys.stdout))):
            yield
        return
    printed, documents = io.StringIO(), list[str]()
    try:
        with (
            _descriptor_turned(),
            contextlib.redirect_stdout(printed),
            setting(_documents, documents),
        ):
            yield
    except BaseException:
        sys.stderr.write(show(printed.getvalue()))
        raise
    if not documents:  # a command of another package may print its document by itself
        print(printed.getvalue(), end="")
        return
    sys.stderr.write(show(printed.getvalue()))
    print("\n".join(documents))


@contextlib.contextmanager
def _descriptor_turned() -> Iterator[None]:
    """Turn the descriptor of the output to the error output, as C code knows no other one."""
    try:
        output = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed
        yield
        return
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(output, 1)
        os.close(output)


class _Shown:
    """A text stream that escapes what a terminal would obey."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(show(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
