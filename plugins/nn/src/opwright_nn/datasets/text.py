"""Readers of text: lines of a file, and documentation strings of Python's standard library."""

from __future__ import annotations

import ast
import codecs
import importlib.util
import os
import tokenize
from collections.abc import Sequence
from pathlib import Path

from opwright.errors import AttributeTypeError, AttributeValueError, FormatError
from opwright.plugin import path_of
from opwright_nn import arguments, checks

__all__ = ["read_docstrings", "read_lines"]

MODULES = (
    "argparse", "ast", "base64", "bisect", "calendar", "cmd", "collections", "concurrent.futures",
    "configparser", "contextlib", "copy", "csv", "difflib", "dis", "email.message", "enum",
    "fractions", "functools", "gettext", "gzip", "heapq", "html.parser", "http.client",
    "http.cookies", "inspect", "ipaddress", "json", "locale", "logging", "mailbox", "mimetypes",
    "optparse", "pathlib", "pdb", "pickle", "pprint", "queue", "random", "shutil", "smtplib",
    "socket", "statistics", "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading",
    "timeit", "tokenize", "traceback", "typing", "unittest.case", "unittest.mock",
    "urllib.request", "uuid", "wave", "weakref", "zipfile",
)  # fmt: skip
"""The modules whose documentation strings are read by default."""


@arguments.suggest
def read_lines(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    keep_empty: bool = False,
    max_bytes: int = 1 << 30,
) -> list[str]:
    """Read the lines of a text file, without line ends.

    Parameters
    ----------
    path : str or path
        The file. Lines end with LF, CR LF or CR; a UTF-8 byte order mark is skipped.
    encoding : str
        The encoding of the file.
    keep_empty : bool
        True keeps lines of white space.
    max_bytes : int, at least 0
        The size limit of the file.

    Returns
    -------
    list of str
        The lines, in order.

    Raises
    ------
    FormatError
        The file has bytes that the encoding does not allow, zero bytes, or more than `max_bytes`.
    OSError
        The file cannot be opened.
    """
    who = "text.read_lines"
    keep_empty = checks.check_bool(who, "keep_empty", keep_empty)
    content = read_text(who, path_of(who, path, "file"), encoding, max_bytes)
    lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line for line in lines if keep_empty or line.strip()]


def read_text(who: str, name: str, encoding: str, max_bytes: int) -> str:
    """Return the content of a text file; see `read_lines` for the checks."""
    limit = checks.check_int(who, "max_bytes", max_bytes, at_least=0)
    try:
        codec = codecs.lookup(checks.check_str(who, "encoding", encoding)).name
    except LookupError:
        raise AttributeValueError(
            f"{who}: encoding must be known to Python, got {encoding!r}; write "
            'encoding="utf-8", for example'
        ) from None
    with open(name, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FormatError(
            f"{name}: a text file may have at most {limit} bytes here, got more; raise max_bytes "
            "if the file is trusted"
        )
    try:
        content = data.decode("utf-8-sig" if codec == "utf-8" else codec)
    except UnicodeError as error:
        raise FormatError(
            f"{name}: a text file must have the encoding {encoding}, got {error}; pass its encoding"
        ) from None
    if "\0" in content:
        line = content.count("\n", 0, content.index("\0")) + 1
        raise FormatError(
            f"{name}: a text file must have no zero bytes, got one in line {line}; pass a text "
            "file, or its encoding"
        )
    return content


@arguments.suggest
def read_docstrings(modules: Sequence[str] = MODULES) -> str:
    """Return English text for language models: documentation strings of the standard library.

    The strings are read from the source files, which are not run, so neither the platform
    nor ``python -OO`` changes them: every machine with the same version of Python, such as 3.11.9,
    has the same text, unless its distributor patched the library. Other versions of Python may have
    different text.

    Parameters
    ----------
    modules : sequence of str
        Names of modules, whose source is installed. By default about 60 of the standard library,
        about 500,000 characters.

    Returns
    -------
    str
        The strings of modules, classes and functions in the order of the source, with an empty
        line between two.

    Raises
    ------
    AttributeTypeError, AttributeValueError
        `modules` are not names, or one of them has no source here.
    """
    if isinstance(modules, str) or not isinstance(modules, Sequence):
        raise AttributeTypeError(
            f"text.read_docstrings: modules must be a list of names, got {modules!r}; write "
            'modules=["argparse"], for example'
        )
    return "\n\n".join(
        string
        for i, name in enumerate(modules)
        for string in _find_docstrings(
            checks.check_str("text.read_docstrings", f"modules[{i}]", name)
        )
    )


def _find_docstrings(name: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    path = Path(spec.origin) if spec is not None and spec.origin else None
    if path is None or path.suffix != ".py" or not path.is_file():
        raise AttributeValueError(
            f"text.read_docstrings: modules must have their source installed, got {name!r}, which "
            "has none; omit it, or install Python with its library's source"
        )
    with tokenize.open(path) as file:
        tree = ast.parse(file.read())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    strings = (ast.get_docstring(node) for node in nodes)
    return [string.strip() for string in strings if string and string.strip()]
