"""Reader of folders of images: each folder in it is a class, with the images of the class.

Pillow decodes the images; it is optional, and only needed here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, FormatError, MissingRequirementError
from opwright_nn import arguments, checks
from opwright_nn.datasets.dataset import Dataset

__all__ = ["Listing", "decode", "find", "read"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""The endings of images."""

_MAX_PIXELS = 1 << 26
_BYTE = 255
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262  # tags of TIFF
_FORMATS_OF_16_BITS = ("PNG", "PPM")  # Pillow gives their numbers of 16 bits in 32
_UNKNOWN_RANGE = {"I": "32-bit or signed integers", "F": "floats"}


@arguments.suggest
class Listing(NamedTuple):
    """The images of a folder.

    Attributes
    ----------
    paths : list of Path
        The files, by class and name.
    labels : ndarray of int64, [n, 1]
        The class of each.
    classes : tuple of str
        The names of the folders, sorted; the number of a class is its place.
    """

    paths: list[Path]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]


@arguments.suggest
def find(folder: str | os.PathLike[str]) -> Listing:
    """Return the files of all classes, without reading them.

    Parameters
    ----------
    folder : str or path
        Has one folder for each class. Names that begin with a point are skipped.

    Returns
    -------
    Listing
        In the same order on every machine.

    Raises
    ------
    FormatError
        There is no class, a class without an image, or a file that is no image by its ending.
    OSError
        The folder cannot be read.
    """
    root = Path(folder)
    names = sorted(path.name for path in root.iterdir() if path.name[0] != "." and path.is_dir())
    if not names:
        raise FormatError(
            f"{root}: an image folder must have one folder for each class, got none; move the "
            "images into folders named after their classes"
        )
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        files = sorted(path for path in (root / name).iterdir() if path.name[0] != ".")
        for file in files:
            if file.suffix.lower() not in SUFFIXES or not file.is_file():
                raise FormatError(
                    f"{file}: a class may only have images ({', '.join(SUFFIXES)}), got "
                    f"{file.name!r}; move it elsewhere"
                )
        if not files:
            raise FormatError(
                f"{root / name}: a class must have at least one image, got none; add one, or "
                "remove the folder"
            )
        paths += files
        labels += [label] * len(files)
    return Listing(paths, np.array(labels, np.int64).reshape(-1, 1), tuple(names))


@arguments.suggest
def decode(
    path: str | os.PathLike[str],
    size: int | Sequence[int] | None = None,
    *,
    grayscale: bool = False,
    max_pixels: int = _MAX_PIXELS,
) -> npt.NDArray[np.float32]:
    """Return one image as an array; the first frame of several.

    Images of 8 bits are divided by 255, grayscale images of 9 to 16 bits by the greatest number of
    their bits. Palettes and CMYK become red, green and blue, and a colour becomes gray, as Pillow
    converts them; colours of 16 bits keep the upper 8. Transparency is dropped: a pixel keeps its
    colour. Orientation tags are not applied. Floats, 32-bit integers and signed ones are refused,
    since nothing says which of their values is white.

    Parameters
    ----------
    path : str or path
        The file.
    size : int or two ints, optional
        Height and width that the image is resized to, bilinear; by default its own.
    grayscale : bool
        True gives one channel instead of red, green and blue.
    max_pixels : int, at least 1
        The size limit of the image, before it is decoded.

    Returns
    -------
    ndarray of float32, [channels, height, width]
        In [0, 1].

    Raises
    ------
    FormatError
        The file is no image, damaged, truncated, has more than `max_pixels`, or numbers of unknown
        range.
    MissingRequirementError
        Pillow is not installed.
    OSError
        The file cannot be opened.
    """
    who = "image_folder.decode"
    shape = None if size is None else checks.check_sizes(who, "size", size, rank=2, at_least=1)
    grayscale = checks.check_bool(who, "grayscale", grayscale)
    limit = checks.check_int(who, "max_pixels", max_pixels, at_least=1)
    return _decode(os.fspath(path), shape, grayscale, limit)


def _decode(
    name: str, shape: tuple[int, ...] | None, grayscale: bool, limit: int
) -> npt.NDArray[np.float32]:
    image_module = _load_pillow()
    # Opened here, so that a missing file stays an OSError: Pillow's errors of content are, too.
    with open(name, "rb") as file:
        try:
            image = image_module.open(file)
            if image.width * image.height > limit:
                raise FormatError(
                    f"{name}: an image may have at most {limit} pixels here, got {image.width} × "
                    f"{image.height}; raise max_pixels if the file is trusted"
                )
            white = _find_white(name, image)
            if white == _BYTE:
                image = image.convert("L" if grayscale else "RGB")
            else:  # Pillow would cut to 255 what is greater
                image = image_module.fromarray(np.asarray(image, np.float32))
        except (
            OSError,
            SyntaxError,
            ValueError,
            EOFError,
            image_module.DecompressionBombError,
        ) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                f"{name}: an image must be whole and of a format that Pillow reads, got "
                f"{type(error).__name__}: {error}; fetch the file again, or move it elsewhere"
            ) from error
    if shape is not None and (image.height, image.width) != shape:
        image = image.resize((shape[1], shape[0]), image_module.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32).reshape(image.height, image.width, -1)
    pixels = pixels / np.float32(white)
    if pixels.shape[2] == 1 and not grayscale:
        pixels = pixels.repeat(3, axis=2)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _find_white(name: str, image: Any) -> int:
    """Return which number of an image is white."""
    tags = getattr(image, "tag_v2", {})  # of TIFF
    inverted = tags.get(_PHOTOMETRIC) == 0
    if image.mode.startswith("I;16") and not inverted:
        bits: int = tags.get(_BITS_PER_SAMPLE, (16,))[0]
        return (1 << bits) - 1
    if image.mode == "I" and image.format in _FORMATS_OF_16_BITS:
        return (1 << 16) - 1
    if image.mode.startswith(("I", "F")):
        kind = "16-bit numbers of which 0 is white" if inverted else _UNKNOWN_RANGE[image.mode[0]]
        raise FormatError(
            f"{name}: an image must have 8 bits a channel, or be grayscale of up to 16 with 0 for "
            f"black, got {kind}; read it with PIL.Image, and scale it to what a network expects"
        )
    return _BYTE


@arguments.suggest
def read(
    folder: str | os.PathLike[str],
    size: int | Sequence[int],
    *,
    grayscale: bool = False,
    max_pixels: int = _MAX_PIXELS,
) -> Dataset:
    """Read all images of a folder into memory; ``find(folder).classes`` are their names.

    Parameters
    ----------
    folder : str or path
        As for `find`.
    size, grayscale, max_pixels
        As for `decode`; all images get the same size.

    Returns
    -------
    Dataset
        Images float32 [n, channels, height, width] in [0, 1], labels int64 [n, 1].

    Raises
    ------
    FormatError, MissingRequirementError, OSError
        As `find` and `decode` raise them.
    """
    if size is None:
        raise AttributeTypeError(
            "image_folder.read: size must be given, for all images become one array, got None; "
            "write size=32, for example"
        )
    listing = find(folder)
    options: dict[str, Any] = {"grayscale": grayscale, "max_pixels": max_pixels}
    return Dataset(np.stack([decode(p, size, **options) for p in listing.paths]), listing.labels)


def _load_pillow() -> Any:
    try:
        import PIL.Image
    except ImportError as error:
        raise MissingRequirementError(
            f"image_folder: Pillow must be installed to decode images, got {error}; run: pip "
            "install pillow"
        ) from None
    return PIL.Image
