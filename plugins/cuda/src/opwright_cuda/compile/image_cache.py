"""Disk cache of compiled code, with one file per image that this user or root must own."""

from __future__ import annotations

import hashlib
import json
import threading
import warnings
from pathlib import Path
from typing import Final

from opwright.plugin import find_cache_folder, read_trusted, remove_oldest, write_trusted
from opwright_cuda.compile.compiler import Image

FORMAT: Final = 1
"""Incremented when the file format changes."""

MAX_FILES: Final = 4096
"""Maximum number of images; the oldest are removed."""

_MOST_BYTES: Final = 1 << 30
"""Maximum total size of all images in bytes, which also limits a single image."""

_MAGIC: Final = b"opwright-cuda-image\n"
_DIGEST_BYTES: Final = 32


class ImageCache:
    """A folder of images.

    Parameters
    ----------
    folder : Path
        Created if missing. An unwritable folder only costs time, and is reported once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_warned = False
        self._warning = threading.Lock()

    @classmethod
    def default(cls) -> ImageCache | None:
        """Return the cache in OPWRIGHT_CACHE_DIR or in the cache folder of the user."""
        folder = find_cache_folder()
        return None if folder is None else cls(Path(folder) / "cuda")

    def has(self, key: str) -> bool:
        """Return whether an image has a file, intact or damaged."""
        return self._path(key).exists()

    def read(self, key: str) -> Image | None:
        """Return an image, or None if it is absent, damaged, or writable by other users."""
        try:
            data = read_trusted(str(self._path(key)), _MOST_BYTES)
        except OSError:
            return None
        begin = len(_MAGIC) + _DIGEST_BYTES
        body = data[begin:]
        if data[:begin] != _MAGIC + hashlib.sha256(body).digest():
            return None
        header, _, image = body.partition(b"\n")
        return Image(image, tuple(json.loads(header)))

    def write(self, key: str, image: Image) -> None:
        """Store an image; concurrent writes of the same image are safe."""
        body = json.dumps(list(image.names)).encode() + b"\n" + image.data
        data = _MAGIC + hashlib.sha256(body).digest() + body
        try:
            write_trusted(str(self._path(key)), [data])
            remove_oldest(str(self._folder), "", MAX_FILES, _MOST_BYTES)
        except OSError as error:
            self._warn(error)

    def _path(self, key: str) -> Path:
        return self._folder / f"{FORMAT}-{key}.image"

    def _warn(self, error: OSError) -> None:
        with self._warning:
            before, self._has_warned = self._has_warned, True
        if not before:
            warnings.warn(
                f"compiled CUDA kernels cannot be cached in {self._folder} ({error}): each "
                f"process compiles them again; set OPWRIGHT_CACHE_DIR to a writable folder",
                RuntimeWarning,
                stacklevel=2,
            )
