"""Writes and reads the files of `save`, `load` and the cache folder.

A file is written under a new name, never through a link, and is on disk once it is closed. Only
regular files are read, and reading takes no more memory than the size of the file.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from opwright.errors import AttributeTypeError, AttributeValueError, FormatError

if TYPE_CHECKING:  # pathlib takes 4 ms to import, and reading does not need it
    from pathlib import Path

    from numpy.typing import NDArray


StrPath: TypeAlias = "str | os.PathLike[str]"

LINE_BYTES: Final = 64
"""The size of a cache line, and of the widest vector register; aligned reads are fastest."""

_MAPPED_BYTES: Final = 1 << 20  # smaller files are read as quickly
_CHUNK_BYTES: Final = 16 << 20  # signals are handled between chunks
_PART_BYTES: Final = 1 << 18  # fits a processor's cache
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}

_MOUNTS: Final = "/proc/self/mountinfo"
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "overlay", "zfs"})

Chunk = bytes | memoryview


def path_of(who: str, path: object, what: str = "folder", name: str = "path") -> str:
    """Return the first argument of the function `who`, the parameter `name`, as a string.

    Raises AttributeTypeError if it is not a path, AttributeValueError if it cannot name a file.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, str):
        raise AttributeTypeError(
            f"{who}: {name} must be a str or a path, got {path!r}; the {what} comes first: "
            f"{who}({what}, ...)"
        )
    if not given or "\0" in given:
        raise AttributeValueError(
            f"{who}: {name} must have at least one character and none that is NUL, got {given!r}; "
            "'.' is the current folder"
        )
    return given


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents; they are on disk when this returns."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
    sync_folder(path.parent)


def make_inner_folder(path: Path) -> None:
    """Create a folder within an existing folder; a link at its path is refused."""
    try:
        path.mkdir()
    except FileExistsError:
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode):
            raise FormatError(f"{path}: must be a folder, got {kind_of(mode)}; remove it") from None
    sync_folder(path.parent)


def write_file(path: Path, chunks: Iterable[Chunk]) -> None:
    """Write a file that must not exist; it is on disk when this returns.

    An OSError contains the path; an incomplete file may remain.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        for chunk in chunks:
            _write_all(handle, memoryview(chunk))
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        os.close(handle)


def replace_file(path: Path, chunks: Iterable[Chunk]) -> None:
    """Write or replace a file; it is complete and on disk when this returns, or unchanged."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        write_file(temporary, chunks)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _write_all(handle: int, data: memoryview) -> None:
    position = 0
    while position < len(data):
        position += os.write(handle, data[position : position + _CHUNK_BYTES])


def sync_folder(path: StrPath) -> None:
    """Write the entries of a folder to disk; otherwise a crash may undo renames."""
    with open_folder(path) as handle:
        os.fsync(handle)


def remove_folder(path: Path) -> None:
    """Remove a folder and its contents, which other processes may remove at the same time."""
    try:
        inner_paths = list(path.iterdir())
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink(missing_ok=True)
        return
    for inner in inner_paths:
        if inner.is_dir() and not inner.is_symlink():
            remove_folder(inner)
        else:
            inner.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        path.rmdir()


def is_same(status: os.stat_result, path: StrPath) -> bool:
    """Whether a path still names the file, folder or link with this status."""
    try:
        return os.path.samestat(status, os.lstat(path))
    except FileNotFoundError:
        return False


def check_format(path: StrPath, content: Any, name: str, newest: int, way_out: str = "") -> None:
    """Check the fields ``format`` and ``format_version`` of decoded JSON.

    Raises ValueError for a different format, and FormatError for a version newer than `newest`.
    """
    fields = content if isinstance(content, dict) else {}
    found, version = fields.get("format"), fields.get("format_version")
    if found != name or type(version) is not int:
        raise ValueError(f"format {found!r:.80}, version {version!r:.80}")
    if version > newest:
        raise FormatError(
            f"{path}: format version must be at most {newest}, got {version}; "
            f"install a newer opwright{way_out}"
        )


def kind_of(mode: int) -> str:
    """Return the kind of a file of this mode, for messages."""
    return _KINDS.get(stat.S_IFMT(mode), "a file")


@contextmanager
def open_folder(path: StrPath) -> Iterator[int]:
    """Open a folder; all files that are opened through the handle are in the same folder."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def open_regular(
    path: StrPath, folder: int | None = None, *, follow: bool = False
) -> Iterator[int]:
    """Open a regular file for reading; pipes and devices are refused, without waiting for them.

    With `folder`, an open folder, the file of this name in it is opened, and the rest of `path`
    is used only in messages. With `follow` the file may be a symbolic link.
    """
    name = path if folder is None else os.path.basename(path)
    _check_regular(path, os.stat(name, dir_fd=folder, follow_symlinks=follow).st_mode)
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(name, flags, dir_fd=folder)
    try:
        _check_regular(path, os.fstat(handle).st_mode)  # it may have been replaced since
        yield handle
    finally:
        os.close(handle)


def _check_regular(path: StrPath, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise FormatError(f"{path}: must be a regular file, got {kind_of(mode)}")


def read_small(path: StrPath, handle: int, max_bytes: int, size_bytes: int | None = None) -> bytes:
    """Return the first bytes of an open file, by default all; FormatError beyond `max_bytes`."""
    size_bytes = os.fstat(handle).st_size if size_bytes is None else size_bytes
    if size_bytes > max_bytes:
        raise FormatError(f"{path}: must have at most {max_bytes} bytes, got {size_bytes}")
    data = bytearray(size_bytes)
    read_into(path, handle, memoryview(data), 0)
    return bytes(data)


def is_local(handle: int) -> bool:
    """Whether an open file is on a local disk, as far as is known.

    Another machine may remove a file on a network drive, and accessing mapped memory then crashes.
    """
    device = os.fstat(handle).st_dev
    key = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    kinds = {line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2] == key}
    return bool(kinds) and kinds <= _LOCAL


def map_file(path: StrPath, handle: int, size_bytes: int) -> NDArray[Any] | None:
    """Map an open file into memory as bytes, which are read on use and copied on write.

    The file is never changed. Returns None if the system cannot map it. The content is undefined
    if other processes write to it, and accessing bytes that they truncated crashes the process.
    """
    import mmap  # only large files are mapped

    try:
        mapped = mmap.mmap(handle, size_bytes, access=mmap.ACCESS_COPY)
    except ValueError:
        raise FormatError(f"{path}: truncated, got less than {size_bytes} bytes") from None
    except OSError:
        return None
    return np.frombuffer(mapped, np.uint8)


def map_large(path: StrPath, handle: int) -> NDArray[Any] | None:
    """Map a file as `map_file` does, or return None if the file is small or on a network drive."""
    size_bytes = os.fstat(handle).st_size
    is_large = size_bytes >= _MAPPED_BYTES and is_local(handle)
    return map_file(path, handle, size_bytes) if is_large else None


def empty_bytes(size_bytes: int) -> NDArray[Any]:
    """Return memory aligned to a cache line."""
    memory = np.empty(size_bytes + LINE_BYTES, np.uint8)
    begin = -memory.__array_interface__["data"][0] % LINE_BYTES
    return memory[begin : begin + size_bytes]


def digest_of(data: Any) -> str:
    """Return the SHA-256 of bytes."""
    with memoryview(data) as view:
        if view.nbytes < _MAPPED_BYTES:  # hashlib is faster, but loads OpenSSL in 3 ms
            with suppress(ImportError):
                own = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
                return str(own.sha256(view).hexdigest())
        from hashlib import sha256

        return sha256(view).hexdigest()


def read_into(path: StrPath, handle: int, target: memoryview, offset: int) -> None:
    """Fill `target` with the bytes of an open file, starting at `offset`."""
    position = 0
    while position < len(target):
        part = target[position : position + _CHUNK_BYTES]
        count = os.preadv(handle, [part], offset + position)
        if count == 0:
            raise FormatError(
                f"{path}: truncated, got {offset + position} bytes instead "
                f"of {offset + len(target)}"
            )
        position += count


def read_chunks(path: StrPath, handle: int, begin: int, end: int) -> Iterator[memoryview]:
    """Yield a part of an open file in chunks; each chunk is overwritten by the next."""
    buffer = memoryview(bytearray(min(_PART_BYTES, end - begin)))
    for position in range(begin, end, _PART_BYTES):
        chunk = buffer[: end - position]
        read_into(path, handle, chunk, position)
        yield chunk
