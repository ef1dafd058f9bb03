"""Markdown made from text that was written for other places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def escape(text: str) -> str:
    """Return text that shows as it is; what stands in backticks stays code."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        for sign in "\\*_<>[]$":
            parts[index] = parts[index].replace(sign, f"\\{sign}")
    return "`".join(parts)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, empty where it has no rows; the cells are Markdown."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(titles)} |", "|" + "---|" * len(titles), *lines])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or " "


def code(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def toctree(names: Iterable[str], caption: str = "") -> str:
    """Return a list of pages for the side bar."""
    head = f":caption: {caption}\n" if caption else ""
    return "```{toctree}\n" + head + ":hidden:\n\n" + "\n".join(names) + "\n```"
