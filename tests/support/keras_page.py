"""Writes the scripts of docs/coming_from_keras.md: ``python tests/support/keras_page.py``.

Each pair is a script of examples/first_week and its Keras version, with the line counts of both.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "first_week"
PAGE = ROOT / "docs" / "coming_from_keras.md"
MARK = "<!-- What follows is written by tests/support/keras_page.py. -->\n"
SCRIPTS = sorted(FOLDER.glob("[0-9]*.py"))

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_code_lines(source: str) -> int:
    """Count the lines of a Python source that are not blank, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or 0) + 1))
    return len(lines)


def read_pair(script: Path) -> tuple[str, str]:
    """Return the sources of a script and of its Keras version."""
    keras = script.parent / "keras" / script.name
    return script.read_text(encoding="utf-8"), keras.read_text(encoding="utf-8")


def make_pairs() -> str:
    """Return the part of the page after the mark."""
    rows, sections = [], []
    for script in SCRIPTS:
        sources = read_pair(script)
        title = (ast.get_docstring(ast.parse(sources[0])) or "").rstrip(".")
        own, other = map(count_code_lines, sources)
        link = f"[{script.name}](../examples/first_week/{script.name})"
        rows.append(f"| {link} | {own} | {other} |")
        heads = (f"opwright, {own} lines", f"Keras, {other} lines")
        cells = [
            f"<td>\n\n**{head}**\n\n```py\n{_body(source)}```\n\n</td>"
            for head, source in zip(heads, sources, strict=True)
        ]
        sections.append(
            f"## {script.name[:2].lstrip('0')}. {title}\n\n<table>\n"
            f'<tr valign="top">\n{cells[0]}\n{cells[1]}\n</tr>\n</table>\n'
        )
    head = "| script | lines with opwright | lines with Keras |\n|---|---|---|\n"
    return "\n".join(["", head + "\n".join(rows) + "\n", *sections])


def _body(source: str) -> str:
    """Return a source without its docstring; the docstring becomes the title."""
    text = ast.parse(source).body[0]
    return "".join(source.splitlines(keepends=True)[text.end_lineno or 0 :]).lstrip("\n")


def main() -> None:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.partition(MARK)[0] + MARK + make_pairs(), encoding="utf-8")


if __name__ == "__main__":
    main()
