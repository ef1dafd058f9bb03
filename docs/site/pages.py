"""The unchanged pages of docs/, and the lists of pages that structure the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from markup import toctree

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
"""A link, or an image with its exclamation mark."""
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)

FROM_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the repository's root, and their names in the site."""

FRONT_END = "\n## The packages\n"
"""The heading that ends the part of the README shown on the first page of the site."""

REFERENCE = """
```{toctree}
:caption: Reference
:hidden:

operators/index
python/index
c/index
```

```{toctree}
:caption: Project
:hidden:

contributing
changelog
```

## Reference

| to look up | read |
|---|---|
| what an operator computes, takes and costs | [Operators](operators/index.md) |
| what a Python module offers | [Python modules](python/index.md) |
| what a compiled plugin hands over and is given | [The C interface](c/index.md) |
"""


def make_pages(root: Path) -> dict[str, bytes]:
    """Return the pages by their path in the site, with the files that they link to."""
    docs = root / "docs"
    found = {path: path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))}
    found |= {root / name: target for name, target in FROM_ROOT.items()}
    linked: dict[str, bytes] = {}
    contents = {}
    for path, name in found.items():
        text = _relink(path.read_text(encoding="utf-8"), path, name, found, root, linked)
        contents[name] = text.encode()
    index = contents.pop("README.md").decode()
    readme = root / "README.md"
    front, end, _ = readme.read_text(encoding="utf-8").partition(FRONT_END)
    if not end:
        raise ValueError(f"README.md: must have the heading {FRONT_END.strip()!r}, got none")
    front = _relink(front, readme, "index.md", found, root, linked)
    contents["index.md"] = _make_index(front, index).encode()
    decisions = "decisions/README.md"
    names = _names_in(contents[decisions].decode())
    contents[decisions] += f"\n{toctree(names)}\n".encode()
    return contents | linked


def _make_index(front: str, documents: str) -> str:
    """Return the first page: the beginning of the README, then the list of documents.

    Each section of the list is a section of the side bar.
    """
    _, *parts = SECTION.split(documents)
    text = f"{front.rstrip()}\n\n"
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        text += f"## {title}\n{body.rstrip()}\n\n{toctree(_names_in(body), title)}\n\n"
    return text + REFERENCE


def _names_in(text: str) -> list[str]:
    targets = [match[2] for match in LINK.finditer(text)]
    return [target.removesuffix(".md") for target in targets if target.endswith(".md")]


def _relink(
    text: str, path: Path, name: str, found: dict[Path, str], root: Path, linked: dict[str, bytes]
) -> str:
    """Redirect links that leave docs/ to a copy of the file; replace folder links with text."""

    def replace(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        file = (path.parent / target).resolve()
        if file in found:
            place = "index.md" if found[file] == "README.md" else found[file]
        elif file.is_file():
            place = f"files/{file.relative_to(root).as_posix()}"
            linked[place] = file.read_bytes()
        elif file.is_dir():
            return f"{words} (`{file.relative_to(root).as_posix()}`)"
        else:
            return match[0]  # Sphinx reports it
        return f"[{words}]({os.path.relpath(place, Path(name).parent)}{anchor})"

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(replace, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(replace, text[end:])])
