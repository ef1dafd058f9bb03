"""Records running imports so that later processes recognize a plugin that kills the process.

``os._exit``, a crash, or a kill while an import hangs make reporting impossible. So a note is
written before the module of a plugin is imported or its library opened, and removed afterwards. If
the process of a note no longer exists, the note names the import that was running, and the next
process warns. If an import killed two processes, the third tries it in a separate process, because
both may have been killed for another reason. If that process is killed as well, the import is
skipped until its files change or the user asks to retry.
"""

from __future__ import annotations

# pathlib takes 4 ms to import, this module 0.1 ms.
# ruff: noqa: PTH103, PTH108, PTH118, PTH208
import contextlib
import fcntl
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

from opwright.errors import OpwrightError, PluginError
from opwright.packages.package import Package
from opwright.records import NamedTuple

MOST_ENDED: Final = 3
"""The number of dead processes after which an import is skipped; the last process only tries it."""

TRIAL_S: Final = 20.0
"""The time limit in seconds of an import attempt, including the start of its process."""

_PREFIX: Final = "importing-"
_MOST_BYTES: Final = 4096
_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC


class EndedImport(NamedTuple):
    """The import that a dead process was running.

    `subject` is a module, such as ``"opwright_acme.plugin"``, or a library,
    ``"opwright_acme/libacme.so"``. `pid` is the process, `path` the note, and `time_ns` the start
    of the import.
    """

    package: Package
    subject: str
    pid: str
    path: str
    time_ns: int


class ImportNotes:
    """The notes of this and earlier processes in one folder; the folder need not exist.

    Registries that are filled manually, and monitored children, do not have a folder or notes.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._ended: list[EndedImport] | None = None

    @contextlib.contextmanager
    def noting(
        self, subject: str, package: Package, function: str, *arguments: Any
    ) -> Iterator[None]:
        """Keep a note during a block that imports a module or opens a library.

        Warns (RuntimeWarning) if one process ended in the middle of this import. After two such
        processes, a separate process first calls ``function(*arguments)`` to try the import. Raises
        PluginError if that process ends too, or did before, so the import is not tried again.
        """
        about = (package, subject)
        ended = [item for item in self.find_ended() if (item.package, item.subject) == about]
        is_tried = len(ended) == MOST_ENDED - 1
        if not is_tried:
            _judge(ended)
        elif not _survives(function, arguments):
            note = _write_note(self._folder, subject, package)
            if note is not None:
                os.close(note[1])  # unlocked, so the attempt counts as one more ended process
            raise PluginError(
                f"{describe_ended(ended)}, and so did one that only tried it; it is skipped",
                advice=advise_retry(package.plugin),
            )
        note = _write_note(self._folder, subject, package)
        try:
            yield
        finally:
            if note is not None:
                _remove_note(*note)
        self._forget(ended)  # it works

    def find_ended(self) -> list[EndedImport]:
        """Return the imports that dead processes were running, after reading the notes once."""
        if self._ended is None:
            ended = [item for item in map(_read, _list_files(self._folder)) if item is not None]
            outdated = list(filter(_has_changed, ended))
            self._ended = [item for item in ended if item not in outdated]
            _remove(outdated)
        return self._ended

    def group(self, packages: Iterable[Package]) -> dict[tuple[Package, str], list[EndedImport]]:
        """Return the ended imports of these packages, by package and subject."""
        groups: dict[tuple[Package, str], list[EndedImport]] = {}
        known = set(packages)
        for item in self.find_ended():
            if item.package in known:
                groups.setdefault((item.package, item.subject), []).append(item)
        return groups

    def forget(self, plugin: str) -> int:
        """Remove the notes about one plugin in this environment; return their number."""
        ended = [item for item in self.find_ended() if item.package.plugin == plugin]
        self._forget(ended)
        return len(ended)

    def _forget(self, ended: list[EndedImport]) -> None:
        _remove(ended)
        if ended:
            self._ended = [item for item in self.find_ended() if item not in ended]


NO_NOTES: Final = ImportNotes()
"""Keeps nothing."""


def _survives(function: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a separate process survives this call."""
    from opwright.child import Child, ChildEnded, ChildRaised  # 6 ms, rarely needed

    try:
        with Child("opwright.child:run_trial", function, *arguments, capture=True) as child:
            child.receive(TRIAL_S)
    except (ChildRaised, OpwrightError):
        return True  # an exception does not kill the process
    except ChildEnded:
        return False
    return True


def is_left_out(ended: list[EndedImport]) -> bool:
    """Whether the import that killed these processes is skipped."""
    return len(ended) >= MOST_ENDED


def advise_retry(plugin: str) -> str:
    """Return the command that makes opwright retry a plugin."""
    return f"opwright doctor --retry {plugin}"


def describe_ended(ended: list[EndedImport]) -> str:
    """Return a line of text about the processes that ended during one import."""
    last = max(ended, key=lambda item: item.time_ns)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(last.time_ns / 1e9))
    who = f"the last {len(ended)} processes" if len(ended) > 1 else "a process"
    end = "; it is skipped" if is_left_out(ended) else ""
    return (
        f"{who} ended while importing {last.subject!r} of {last.package.label} "
        f"(process {last.pid}, {when}){end}"
    )


def ended_to_json(subject: str, ended: list[EndedImport]) -> dict[str, object]:
    """Return the ended imports of one subject as plain data."""
    return {"subject": subject, "processes": len(ended), "left_out": is_left_out(ended)}


def _remove(ended: Iterable[EndedImport]) -> None:
    for item in ended:
        with contextlib.suppress(OSError):  # another process may have removed it
            os.unlink(item.path)


def _judge(ended: list[EndedImport]) -> None:
    """Warn about a process that ended; raise if there are at least `MOST_ENDED`."""
    if not ended:
        return
    package = ended[0].package
    if is_left_out(ended):
        raise PluginError(describe_ended(ended), advice=advise_retry(package.plugin))
    warnings.warn(
        f"plugin {package.plugin!r}: {describe_ended(ended)}; if that happens again, it is "
        "skipped; to see the reason: opwright doctor",
        RuntimeWarning,
        stacklevel=2,
    )


def _write_note(folder: str | None, subject: str, package: Package) -> tuple[str, int] | None:
    """Write a note and lock it; return its path and descriptor, or None if that fails.

    The lock is released when the process ends. A process id would not suffice, since containers
    that share the folder use the same ids.
    """
    if folder is None:
        return None
    path = os.path.join(folder, f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    lines = [*package, subject, sys.prefix, str(os.getpid())]
    try:
        os.makedirs(folder, exist_ok=True)
        file = os.open(path, _NEW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, "\n".join(lines).encode())  # written last, because an empty note is ignored
    except (OSError, UnicodeError):
        _remove_note(path, file)
        return None
    return path, file


def _remove_note(path: str, file: int) -> None:
    """Remove a note, then unlock it, since an unlocked note means that its process has ended."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    os.close(file)


def _list_files(folder: str | None) -> list[str]:
    if folder is None:
        return []
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith(_PREFIX))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names]


def _read(path: str) -> EndedImport | None:
    """Return the content of a note, or None if its process is alive or has just removed it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        status = os.fstat(file)
        plugin, distribution, version, subject, prefix, pid = (
            os.read(file, _MOST_BYTES).decode().split("\n")
        )
    except (OSError, ValueError):  # locked by a running process, or incomplete
        return None
    finally:
        os.close(file)
    is_ours = status.st_uid in (0, os.geteuid())
    if status.st_nlink == 0 or prefix != sys.prefix or not is_ours:
        return None
    package = Package(plugin, distribution, version)
    return EndedImport(package, subject, pid, path, status.st_mtime_ns)


def _has_changed(item: EndedImport) -> bool:
    """Return whether a file of the package is newer than the note, so that it may be fixed."""
    import importlib.util  # only if a process has ended

    top = item.subject.partition("/")[0].partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)  # imports nothing
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    folders = list(spec.submodule_search_locations or ())
    files = [spec.origin] if spec.origin and not folders else list(_source_files(folders))
    return any(_changed_ns(file) > item.time_ns for file in files)


def _source_files(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for path, _, names in os.walk(folder):
            # Byte code is excluded, since the import itself writes it.
            yield from (os.path.join(path, name) for name in names if not name.endswith(".pyc"))


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - as above
    except OSError:
        return 0
