"""Builds the documentation site: gathers the pages, writes the references, runs Sphinx.

Warnings are errors, for example a broken link, an unlisted page or a malformed docstring.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Only plugins of this repository are described, not other installed plugins.
os.environ["OPWRIGHT_PLUGINS"] = "std,cpu,cuda"

import c_interface
import operators
import python_modules
from sphinx.cmd.build import main as run_sphinx

import pages

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def make_pages() -> dict[str, bytes]:
    """Return every page of the site, and every file that a page links to, by path in the site."""
    references = {
        **operators.make_pages(),
        **python_modules.make_pages(),
        **c_interface.make_pages(ROOT / "core" / "include" / "opwright"),
    }
    return {
        **pages.make_pages(ROOT),
        **{path: text.encode() for path, text in references.items()},
    }


def write_changed(folder: Path, contents: dict[str, bytes]) -> None:
    """Make a folder contain exactly these files; unchanged files keep their modification times."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in contents:
            path.unlink()
    for name, data in contents.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def main() -> int:
    """Build the site and return Sphinx's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "docs", help="the site")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "docs-work")
    args = parser.parse_args()
    source = args.work / "source"
    write_changed(source, make_pages())
    # All pages are written (-a), since all have the side bar; only changed pages are reread.
    options = ["-q", "-a", "-W", "--keep-going", "-b", "html", "-c", str(HERE)]
    options += ["-d", str(args.work / "doctrees")]
    return run_sphinx([*options, str(source), str(args.to)])


if __name__ == "__main__":
    sys.exit(main())
