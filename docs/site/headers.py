"""Reads C and C++ headers: declarations at the outermost level, each with the comment above it.

It is not a compiler's parser: it relies on the layout of clang-format, where a line that begins at
the first column begins a declaration, and the declaration ends where its brackets are closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_PART = re.compile(r"^/\* -{2,} (.+?) -{2,} \*/$", re.MULTILINE)
_GUARD = re.compile(r"^#(ifndef|define) \w+_(H|HPP)_$")
_TEMPLATE = r"^(?:template <.*> ?)?"
_NAMES = (
    re.compile(r"^#define (\w+)"),
    re.compile(
        r"^(?:template <.*> ?)?(?:typedef )?(?:struct|class|enum|union)(?: \[\[\w+\]\])? (\w+)"
    ),
    re.compile(r"^typedef .*\(\*(\w+)\)\("),
    re.compile(_TEMPLATE + r"using (\w+) ="),
    re.compile(r"(\w+(?: ?(?:==|!=|<<))?)\("),
    re.compile(r"^(?:inline |static )*(?:constexpr|const) .*?(\w+) ="),
)
_FORWARD = re.compile(r"^(typedef )?(struct|class) \w+( \w+)?;$")


class Item(NamedTuple):
    """A declaration, or a group of consecutive constants.

    Attributes
    ----------
    names : tuple of str
        The declared names; empty for a comment without a declaration.
    comment : str
        The comment above, without its markers.
    code : str
        The declaration's source, for a class without its private part.
    """

    names: tuple[str, ...]
    comment: str
    code: str


def find_head(text: str) -> str:
    """Return the comment at the beginning of a header."""
    return _read_comment(text.splitlines(), 0)[0]


def split_parts(text: str) -> list[tuple[str, str]]:
    """Return the parts of a header, separated by lines of dashes, each with its title."""
    lines = text.splitlines()
    body = "\n".join(lines[_read_comment(lines, 0)[1] :])
    first, *rest = _PART.split(body)
    return [("", first), *zip(rest[::2], rest[1::2], strict=True)]


def read_items(text: str) -> Iterator[Item]:
    """Yield the declarations of a header that are not in ``namespace detail``."""
    lines = text.splitlines()
    comment, position, group = "", 0, Item((), "", "")
    while position < len(lines):
        line = lines[position]
        end = position + 1
        is_constant = line.startswith("#define") and not _GUARD.match(line)
        if group.names and not is_constant:
            yield group
            group = Item((), "", "")
        if line.startswith(("/*", "//")):
            comment, end = _read_comment(lines, position)
            position = end
            continue
        if line.startswith("namespace detail") or line == "namespace {":
            end = _find_end(lines, position)
        elif is_constant:
            end = _find_macro_end(lines, position)
            code = "\n".join(lines[position:end])
            names = (*group.names, _name_of(code) or "")
            group = Item(names, group.comment or comment, f"{group.code}\n{code}".lstrip("\n"))
        elif not line.strip():
            if comment:
                yield Item((), comment, "")
        elif not line.startswith(("#", "}", "extern", "namespace", " ")):
            end = _find_end(lines, position)
            code = "\n".join(lines[position:end])
            name = None if _FORWARD.match(code) else _name_of(code)
            if name is not None:
                yield Item((name,), comment, _hide_private(code))
        comment, position = "", end
    if group.names:
        yield group


def _read_comment(lines: list[str], begin: int) -> tuple[str, int]:
    """Return the text of the comment that begins at a line, and the line after it."""
    end = begin
    if lines[begin].startswith("//"):
        while end < len(lines) and lines[end].startswith("//"):
            end += 1
        return "\n".join(line[2:].removeprefix(" ") for line in lines[begin:end]).strip(), end
    while "*/" not in lines[end]:
        end += 1
    text = "\n".join(lines[begin : end + 1]).strip().removeprefix("/*").removesuffix("*/")
    stripped = [re.sub(r"^ \* ?|^ \*$|^   ", "", line) for line in text.splitlines()]
    return "\n".join(stripped).strip(), end + 1


def _find_macro_end(lines: list[str], begin: int) -> int:
    end = begin
    while lines[end].endswith("\\"):
        end += 1
    return end + 1


def _find_end(lines: list[str], begin: int) -> int:
    """Return the line after the declaration or namespace that begins at a line."""
    depth = 0
    for position in range(begin, len(lines)):
        plain = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*|/\*.*?\*/', "", lines[position])
        depth += len(re.findall(r"[({]", plain)) - len(re.findall(r"[)}]", plain))
        if depth == 0 and plain.rstrip().endswith((";", "}")):
            return position + 1
    return len(lines)


def _name_of(code: str) -> str | None:
    flat = " ".join(code.split())
    found = (pattern.search(flat) for pattern in _NAMES)
    return next((match[1] for match in found if match), None)


def _hide_private(code: str) -> str:
    """Return the source of a class without its private part."""
    return re.sub(r"\n*^ private:\n.*(?=^\})", "\n", code, flags=re.MULTILINE | re.DOTALL)
