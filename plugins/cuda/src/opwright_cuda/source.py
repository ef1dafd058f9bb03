"""CUDA sources; each is a file with its options and the headers that it can include."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

import opwright


@dataclass(frozen=True)
class Source:
    """The text of a CUDA C++ file and of all its includes.

    Attributes
    ----------
    name : str
        File name, for error messages.
    text : str
        The source to compile.
    headers : tuple of (str, str)
        Name and text of each includable header. All of opwright's headers are available:
        ``"kernel.h"``, ``"opwright/functors.h"`` and others.
    options : tuple of str
        More options for the compiler.
    """

    name: str
    text: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    options: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The hash of everything that affects the compiled code."""
        return digest_of(self.name, self.text, repr(self.headers), repr(self.options))

    @classmethod
    def of_package(cls, package: str, path: str, options: tuple[str, ...] = ()) -> Source:
        """Return a file of an installed package.

        Parameters
        ----------
        package : str
            Import name.
        path : str
            The file below it, ``"cu/cosine.cu"``; headers in its folder may be included by name.
        options : tuple of str
            More options for the compiler.
        """
        file = files(package).joinpath(path)
        folder = files(package).joinpath(str(Path(path).parent))
        beside = sorted(
            (entry.name, entry.read_text())
            for entry in folder.iterdir()
            if entry.name.endswith((".h", ".cuh"))
        )
        return cls(file.name, file.read_text(), (*beside, *shared_headers()), options)

    def with_snippet(self, snippet: str) -> Source:
        """Return a copy of the source with an appended snippet, such as a generated functor."""
        return Source(self.name, f"{self.text}\n{snippet}\n", self.headers, self.options)


def digest_of(*texts: str) -> str:
    """Return a collision-resistant hash of strings."""
    joined = hashlib.sha256()
    for text in texts:
        data = text.encode()
        joined.update(len(data).to_bytes(8, "little"))
        joined.update(data)
    return joined.hexdigest()


@cache
def shared_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers that every source can include, from this package and from opwright."""
    own = files("opwright_cuda").joinpath("cu")
    found = [(e.name, e.read_text()) for e in own.iterdir() if e.name.endswith(".h")]
    include = Path(opwright.get_include())
    for path in (include / "opwright" / "functors.h", *(include / "opwright/functors").glob("*.h")):
        found.append((path.relative_to(include).as_posix(), path.read_text()))
    return tuple(sorted(found))


@cache
def own_source(name: str, options: tuple[str, ...] = ()) -> Source:
    """Return a source file of this package, such as ``own_source("elementwise.cu")``."""
    text = files("opwright_cuda").joinpath("cu", name).read_text()
    return Source(name, text, shared_headers(), options)
