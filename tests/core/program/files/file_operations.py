"""Records the disk operations of a save, and simulates the state after a power loss.

The operations are replayed on a model of a disk that guarantees only what POSIX guarantees. The
content of a file is durable after its fsync, and names in a folder are durable after the fsync of
the folder. Before these calls, a power loss can undo each change independently and leave data
partially written.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

CHANGES = ("mkdir", "symlink", "rename", "unlink", "rmdir")
HANDLES = ("open", "write", "fsync", "close")


class Operation(NamedTuple):
    """One change, with paths relative to the monitored folder."""

    kind: str
    path: str
    target: str = ""
    data: bytes = b""


class Recorder:
    """Replaces `os` functions with wrappers that also record changes.

    Parameters
    ----------
    root : Path
        Changes below it are recorded.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.paths: dict[int, str] = {}
        self.kept = {name: getattr(os, name) for name in (*CHANGES, *HANDLES)}

    def note(self, kind, *paths, data=b""):
        self.operations.append(Operation(kind, *paths, data=data))

    def relative(self, path):
        return os.path.relpath(path, self.root)

    def mkdir(self, path, *rest, **options):
        self.kept["mkdir"](path, *rest, **options)
        self.note("mkdir", self.relative(path))

    def symlink(self, text, path, *rest, **options):
        self.kept["symlink"](text, path, *rest, **options)
        self.note("symlink", self.relative(path), text)

    def rename(self, path, target, *rest, **options):
        self.kept["rename"](path, target, *rest, **options)
        self.note("rename", self.relative(path), self.relative(target))

    def unlink(self, path, *rest, **options):
        self.kept["unlink"](path, *rest, **options)
        self.note("unlink", self.relative(path))

    def rmdir(self, path, *rest, **options):
        self.kept["rmdir"](path, *rest, **options)
        self.note("rmdir", self.relative(path))

    def open(self, path, flags, *rest, **options):
        handle = self.kept["open"](path, flags, *rest, **options)
        if options.get("dir_fd") is None:
            self.paths[handle] = self.relative(path)
            if flags & os.O_CREAT:
                self.note("create", self.relative(path))
        return handle

    def write(self, handle, data):
        count = self.kept["write"](handle, data)
        self.note("write", self.paths[handle], data=bytes(data[:count]))
        return count

    def fsync(self, handle):
        self.kept["fsync"](handle)
        self.note("fsync", self.paths[handle])

    def close(self, handle):
        self.kept["close"](handle)
        self.paths.pop(handle, None)


@contextlib.contextmanager
def recording(root: Path):
    """Yield a list that records every change that `os` functions make below `root`."""
    recorder = Recorder(root)
    try:
        for name in recorder.kept:
            setattr(os, name, getattr(recorder, name))
        yield recorder.operations
    finally:
        for name, function in recorder.kept.items():
            setattr(os, name, function)


class Disk:
    """Models the files below a folder, and which of their changes survive a power loss.

    Parameters
    ----------
    root : Path
        The initial contents of the disk, all of them durable.
    """

    def __init__(self, root: Path) -> None:
        self.nodes: list[dict] = []
        self.tree = self._read(root)

    def _read(self, path: Path) -> dict:
        if path.is_symlink():
            return {"link": str(path.readlink())}
        if path.is_file():
            data = path.read_bytes()
            return {"data": data, "safe": data}
        entries = {inner.name: self._read(inner) for inner in path.iterdir()}
        return {"now": dict(entries), "safe": entries, "pending": []}

    def find(self, path: str) -> dict:
        node = self.tree
        for part in Path(path).parts:
            node = node["now"][part]
        return node

    def apply(self, operation: Operation) -> None:
        kind, path, target, data = operation
        if kind == "write":
            self.find(path)["data"] += data
        elif kind == "fsync":
            node = self.find(path)
            if "data" in node:
                node["safe"] = node["data"]
            else:
                node["safe"], node["pending"] = dict(node["now"]), []
        else:
            self._change(kind, Path(path), Path(target))

    def _change(self, kind: str, path: Path, target: Path) -> None:
        parent = self.find(str(path.parent))
        if kind == "rename":
            assert path.parent == target.parent, "a rename within a folder is one change"
            change = {path.name: None, target.name: parent["now"][path.name]}
        elif kind in ("unlink", "rmdir"):
            change = {path.name: None}
        else:
            new = {
                "create": {"data": b"", "safe": b""},
                "mkdir": {"now": {}, "safe": {}, "pending": []},
                "symlink": {"link": str(target)},
            }[kind]
            change = {path.name: new}
        parent["pending"].append(change)
        _put(parent["now"], change)

    def write_after_loss(self, root: Path, random, share: float, tear: str) -> None:
        """Write the files that remain if the power is lost now.

        Parameters
        ----------
        root : Path
            An empty folder.
        random : random.Random
            Draws the lost changes.
        share : float
            The fraction of changes not yet durable that nevertheless survive.
        tear : str
            The fate of data that is not yet durable: "lost", "whole", "cut" or "zeros".
        """
        self._write(self.tree, root, random, share, tear)

    def _write(self, node: dict, path: Path, random, share: float, tear: str) -> None:
        entries = dict(node["safe"])
        for change in node["pending"]:
            if random.random() < share:
                _put(entries, change)
        for name, inner in entries.items():
            if "link" in inner:
                (path / name).symlink_to(inner["link"])
            elif "data" in inner:
                (path / name).write_bytes(_torn(inner, random, tear))
            else:
                (path / name).mkdir()
                self._write(inner, path / name, random, share, tear)


def _put(entries: dict, change: dict) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _torn(node: dict, random, tear: str) -> bytes:
    data, safe = node["data"], node["safe"]
    if data == safe or tear == "lost":
        return safe
    if tear == "whole":
        return data
    cut = random.randrange(len(data) + 1)
    return data[:cut] if tear == "cut" else data[:cut] + bytes(len(data) - cut)
