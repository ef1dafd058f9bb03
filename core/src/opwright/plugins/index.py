"""Keeps the registrations of plugins in a file, so that later processes import no plugin.

There is one file for each set of installed plugins, so that environments that share a cache folder
do not overwrite each other. It is written under a temporary name and renamed, so it is complete or
absent; two first processes write the same. A file that is stale, corrupt or cannot be written costs
time only.

The records are written by marshal, as byte code is, and read by the version of Python that wrote
them: with 100 plugins that takes a quarter of the time of JSON. Nothing in them is run.
"""

from __future__ import annotations

# pathlib takes 4 ms to import, as long as all the rest of reading an index.
# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH111, PTH117, PTH118, PTH120, PTH208
import contextlib
import marshal
import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from opwright.plugins.load import stat_file
from opwright.plugins.record import PluginRecord
from opwright.plugins.scan import Source

FORMAT: Final = 8
"""Raised when records change their form: indexes of another one are not read."""

_KEPT_FILES: Final = 32
"""Indexes kept in the folder; of more the oldest are removed."""


class IndexFile(NamedTuple):
    """The index and its content.

    `path` is None where there is no folder for it. `records`, by `key_of`, are those whose plugin
    is unchanged. `state`, for `opwright doctor`, is ``"read"``, ``"read in part"``, ``"absent"``,
    ``"unreadable: <why>"`` or ``"corrupt: <why>"``.
    """

    path: str | None
    records: Mapping[str, PluginRecord]
    state: str


def find_cache_folder(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the folder of the index: OPWRIGHT_CACHE_DIR, or in the user's cache; None if neither.

    Parameters
    ----------
    environ : mapping, optional
        By default ``os.environ``.
    """
    env = os.environ if environ is None else environ
    if env.get("OPWRIGHT_CACHE_DIR"):
        return os.path.abspath(env["OPWRIGHT_CACHE_DIR"])
    if env.get("XDG_CACHE_HOME"):
        return os.path.join(os.path.abspath(env["XDG_CACHE_HOME"]), "opwright")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # no home folder, as in some containers
        return None
    return os.path.join(home, ".cache", "opwright")


def index_path(folder: str, sources: Iterable[Source], core_version: str) -> str:
    """Return the file for these plugins, this Python and this core."""
    environment = [FORMAT, core_version, sys.implementation.cache_tag, sys.platform]
    plugins = [[s.distribution, s.name, s.target, s.location] for s in sources]
    data = repr([environment, plugins]).encode()
    # Two checksums rather than a cryptographic hash, whose module takes longer to import than all
    # of this; the sources are compared one by one when the file is read.
    return os.path.join(folder, f"plugins-{zlib.crc32(data):08x}{zlib.adler32(data):08x}.index")


def key_of(source: Source) -> str:
    """Return the key of a plugin in the index."""
    return f"{source.distribution}:{source.name}={source.target}"


def read(path: str | None, sources: Iterable[Source]) -> IndexFile:
    """Return the records in the file that are still valid for these plugins."""
    if path is None:
        return IndexFile(None, {}, "off: there is no cache folder")
    try:
        with open(path, "rb") as file:
            records = _parse(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return IndexFile(path, {}, "absent")
    except OSError as error:
        return IndexFile(path, {}, f"unreadable: {error}")
    except (ValueError, TypeError, EOFError) as error:
        return IndexFile(path, {}, f"corrupt: {type(error).__name__}: {error}")
    installed = {key_of(source): source for source in sources}
    fresh = {key: r for key, r in records.items() if _is_valid(r, installed.get(key))}
    return IndexFile(path, fresh, "read" if len(fresh) == len(installed) else "read in part")


def _parse(data: bytes) -> dict[str, PluginRecord]:
    head, _, body = data.partition(b"\n")
    if head != _make_head(body):
        raise ValueError("its checksum or format differs")
    records = map(PluginRecord.from_plain, marshal.loads(body))
    return {key_of(record.source): record for record in records}


def _make_head(body: bytes) -> bytes:
    return f"opwright {FORMAT} {zlib.crc32(body):08x}".encode()


def _is_valid(record: PluginRecord, source: Source | None) -> bool:
    if record.source != source:
        return False
    return all(stat_file(file.path) == file for file in record.files)


def write(path: str, records: Iterable[PluginRecord]) -> str:
    """Write the records that may be kept; return ``"written"``, or why they could not be.

    Nothing is raised: without an index, the next process imports the hook modules again.
    """
    body = marshal.dumps([record.to_plain() for record in records if record.files])
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(_make_head(body) + b"\n" + body)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _remove_oldest(os.path.dirname(path))
    except OSError as error:
        return f"unwritable: {error}"
    return "written"


def _remove_oldest(folder: str) -> None:
    """Keep the folder small: every environment that ever existed left a file in it."""
    names = [name for name in os.listdir(folder) if name.startswith("plugins-")]
    if len(names) <= _KEPT_FILES:
        return
    files = [stat_file(os.path.join(folder, name)) for name in names]
    ages = sorted((file.mtime_ns, file.path) for file in files if file is not None)
    for _, path in ages[:-_KEPT_FILES]:
        with contextlib.suppress(OSError):  # another process may have removed it
            os.unlink(path)
