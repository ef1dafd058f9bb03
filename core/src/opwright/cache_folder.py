"""The cache folder, where processes store results for later processes.

The files name code that is later imported, opened and run, so a file that another user may have
written is not read. Files are written under a temporary name and then renamed, so they are complete
or absent.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping

from opwright.errors import SettingError


def find_cache_folder(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the cache folder, OPWRIGHT_CACHE_DIR or a folder in the user's cache, or None.

    Parameters
    ----------
    environ : mapping, optional
        By default ``os.environ``.
    """
    env = os.environ if environ is None else environ
    if env.get("OPWRIGHT_CACHE_DIR"):
        return os.path.abspath(env["OPWRIGHT_CACHE_DIR"])
    if os.path.isabs(env.get("XDG_CACHE_HOME", "")):  # XDG ignores relative paths
        return os.path.join(env["XDG_CACHE_HOME"], "opwright")
    home = os.path.expanduser("~")  # relative without a home folder, as in some containers
    return os.path.join(home, ".cache", "opwright") if os.path.isabs(home) else None


def read_switch(name: str, default: bool = False) -> bool:
    """Return an environment variable that is 0 or 1; SettingError for any other value."""
    value = os.environ.get(name, "").strip().lower()
    if value not in {"", "0", "1", "false", "true", "no", "yes", "off", "on"}:
        raise SettingError(f"{name}: must be 0 or 1, got {value!r}; set it to 1")
    return value in {"1", "true", "yes", "on"} if value else default


def read_trusted(path: str, most_bytes: int) -> bytes:
    """Return the content of a file that no other user can write; otherwise raise OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        check_trust(path, status)
        check_trust(os.path.dirname(path), os.stat(os.path.dirname(path)))
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise OSError(f"it must be a file of at most {most_bytes} bytes")
        return os.read(file, status.st_size)
    finally:
        os.close(file)


def check_trust(path: str, status: os.stat_result) -> None:
    """Raise PermissionError if users other than this one and root may write a file."""
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise PermissionError(
            f"{path} must belong to this user or root, and no other may write it; chmod go-w {path}"
        )


def write_trusted(path: str, chunks: Iterable[bytes | memoryview]) -> None:
    """Write or replace a file, in a folder that is created if missing; OSError on failure.

    The file is not synchronized, so a crash may damage it; readers must detect that.
    """
    folder = os.path.dirname(path)
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    os.makedirs(folder, 0o755, exist_ok=True)
    check_trust(folder, os.stat(folder))
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with open(file, "wb") as stream:
            stream.writelines(chunks)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_oldest(folder: str, begin: str, most_files: int, most_bytes: int) -> None:
    """Keep the newest files with this prefix in a folder, up to a number and a total size."""
    ages = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # another process may have removed it
            if name.startswith(begin):
                status = os.lstat(path)
                ages.append((status.st_mtime_ns, path, status.st_size))
    for i, (_, path, size_bytes) in enumerate(sorted(ages, reverse=True)):
        most_bytes -= size_bytes
        if i >= most_files or most_bytes < 0:
            with contextlib.suppress(OSError):
                os.unlink(path)
