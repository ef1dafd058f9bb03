"""Converts text that was not written for the site to Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def escape(text: str) -> str:
    """Escape text so that it is shown unchanged; text in backticks stays code."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        for sign in "\\*_<>[]$":
            parts[index] = parts[index].replace(sign, f"\\{sign}")
    return "`".join(parts)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown cells without empty columns; an empty string without rows."""
    columns = zip(titles, *([_cell(text) for text in row] for row in rows), strict=True)
    kept = [column for column in columns if any(column[1:])]
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*kept, strict=True)]
    return "\n".join([lines[0], "|" + "---|" * len(kept), *lines[1:]]) if kept else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def toctree(names: Iterable[str], caption: str = "") -> str:
    """Return a list of pages for the side bar."""
    head = f":caption: {caption}\n" if caption else ""
    return "```{toctree}\n" + head + ":hidden:\n\n" + "\n".join(names) + "\n```"
