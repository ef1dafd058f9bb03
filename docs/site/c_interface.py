"""The reference of the C interface and its C++ SDK, from the headers and their comments."""

from __future__ import annotations

import re
from pathlib import Path

from headers import Item, find_head, read_items, split_parts
from markup import code, escape, table, toctree

ABI = "opwright/abi.h"
INTRODUCTION = """\
Compiled plugins include these headers, which `opwright.get_include()` finds, and link nothing of
opwright. [Publish a compiled operator](../publish_a_compiled_operator.md) shows how."""


def make_pages(include: Path) -> dict[str, str]:
    """Return the pages by their path in the site."""
    abi = (include / "abi.h").read_text(encoding="utf-8")
    pages = {"c/abi.md": make_page(ABI, abi)}
    rows = [(f"[`{ABI}`](abi.md)", "The interface itself, in C; normative.")]
    umbrella = find_head((include / "sdk.hpp").read_text(encoding="utf-8"))
    rows.append(("`opwright/sdk.hpp`", escape(umbrella.partition("\n\n")[0])))
    for header in [*sorted((include / "sdk").glob("*.hpp")), include / "functors.h"]:
        text = header.read_text(encoding="utf-8")
        name = f"opwright/{header.relative_to(include).as_posix()}"
        page = "_".join(header.relative_to(include).with_suffix("").parts)
        pages[f"c/{page}.md"] = make_page(name, text)
        rows.append((f"[`{name}`]({page}.md)", escape(find_head(text).partition("\n\n")[0])))
    pages["c/index.md"] = _make_index(rows, [path.removesuffix(".md") for path in pages])
    return pages


def _make_index(rows: list[tuple[str, str]], names: list[str]) -> str:
    return "\n\n".join(
        [
            "# The C interface",
            INTRODUCTION,
            table(("header", "what it is"), rows),
            toctree(name.removeprefix("c/") for name in names),
            "",
        ]
    )


def make_page(name: str, text: str) -> str:
    """Return the page of one header: its declarations, each with the comment above it."""
    language = "c" if name == ABI else "cpp"
    parts = [f"# {name}", _prose(find_head(text))]
    for title, chunk in split_parts(text):
        items = list(read_items(chunk))
        if title and items:
            parts.append(f"## {title}")
        for item in items:
            parts += _show(item, language, "###" if title else "##")
    return "\n\n".join(filter(None, parts)) + "\n"


def _show(item: Item, language: str, level: str) -> list[str]:
    title = [f"{level} {', '.join(f'`{name}`' for name in item.names)}"] if item.names else []
    return [*title, _prose(item.comment), code(language, item.code) if item.code else ""]


def _prose(comment: str) -> str:
    """Return a comment as Markdown: its headings, lists, paragraphs and indented code."""
    parts = []
    for paragraph in comment.split("\n\n"):
        lines = paragraph.splitlines()
        if len(lines) > 1 and re.fullmatch("-{3,}", lines[1]):
            parts.append(f"## {lines[0]}")
            lines = lines[2:]
        if lines and all(line.startswith("  ") for line in lines):
            parts.append(code("text", "\n".join(line[2:] for line in lines)))
        elif lines:
            parts.append(escape("\n".join(lines)))
    return "\n\n".join(parts)
