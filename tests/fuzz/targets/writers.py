"""Hostile names never become markup in the text of a program or on its page."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from descriptions import change_program
from models import forward_programs, training_programs

import opwright as ow
from opwright.framework_pb2 import ProgramDesc

MARK = "z9q7"
"""Part of every hostile name; it must never occur in an element or attribute name."""

_PARTS = (
    f"<{MARK}>",
    f"</script><{MARK}>",
    f"<!--<script><{MARK}",
    f"' on{MARK}='x",
    f'" on{MARK}="x',
    f"]]><{MARK}/>",
    f"&lt;{MARK}&gt;",
    f"</title><{MARK} x=",
    f"\u202e{MARK}",
    f"\u2028{MARK}\u2029",
    f"\x00\x1b[31m{MARK}",
    f"\\u003c{MARK}\\u003e",
    f"{MARK}\n",
    "a" * 3000,
    "é" * 40,
    "\U0001f600",
    "%s {0} ${x}",
    " ",
)


class _Reader(HTMLParser):
    """Records the elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.broken: list[str] = []
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [tag, *(name for name, _ in attrs)]
        self.broken += [name for name in names if MARK in name]
        self.opened.append(tag)

    def handle_comment(self, data: str) -> None:
        self.broken.append(f"comment {data[:40]!r}")


@cache
def _page() -> Path:
    return Path(tempfile.mkdtemp(prefix="writers-")) / "page.html"


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the bytes of a program, the names to replace, and a title."""
    programs = forward_programs() if rng.random() < 0.8 else training_programs()
    data = rng.choice(programs)
    if rng.random() < 0.3:
        data = change_program(rng, data, 1)
    return {
        "program": data,
        "names": [_hostile(rng) for _ in range(rng.choice((1, 2, 5, 20)))],
        "title": _hostile(rng),
        "every": rng.choice((1, 2, 3)),
    }


def _hostile(rng: random.Random) -> str:
    return "".join(rng.choice(_PARTS) for _ in range(rng.choice((1, 1, 2, 3))))


def run(case: dict[str, Any]) -> None:
    """Rename variables, then write the program as text and as a page."""
    message = ProgramDesc.FromString(case["program"])
    _rename(message, case["names"], case["every"])
    program = ow.Program.from_proto(message)
    text = str(program)
    if any(sign in text for sign in ("\x00", "\x1b")):
        raise AssertionError("the text of a program has control signs of a name in it")
    network = ow.Network(program.global_block())
    network.graph_html(_page(), title=case["title"], fetches=list(message.fetches), force=True)
    page = _page().read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(page)
    if reader.broken or reader.opened.count("script") != 2:
        raise AssertionError(f"the page contains markup from a name: {reader.broken[:3]}")


def _rename(message: Any, names: list[str], every: int) -> None:
    """Rename variables and all references to them."""
    known = list(dict.fromkeys(var.name for block in message.blocks for var in block.vars))
    others = {name: f"{names[i % len(names)]}{i}" for i, name in enumerate(known) if not i % every}
    for block in message.blocks:
        for var in block.vars:
            var.name = others.get(var.name, var.name)
        for op in block.ops:
            for slot in (*op.inputs, *op.outputs):
                slot.names[:] = [others.get(name, name) for name in slot.names]
            for value in op.attrs.values():
                if value.WhichOneof("value") == "strings":
                    listed = value.strings.values
                    listed[:] = [others.get(name, name) for name in listed]
    for listed in (message.feeds, message.fetches):
        listed[:] = [others.get(name, name) for name in listed]
