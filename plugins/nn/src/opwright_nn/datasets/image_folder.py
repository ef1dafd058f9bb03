"""Reader of image folders: each subfolder is a class and contains its images.

Pillow decodes the images; it is optional, and only needed here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FormatError,
    MissingRequirementError,
)
from opwright.plugin import path_of
from opwright_nn import arguments, checks
from opwright_nn.datasets.dataset import Dataset

__all__ = ["Listing", "decode", "find", "read"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""The file name extensions of images."""

_MAX_PIXELS = 1 << 26
_BYTE = 255
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262  # tags of TIFF
_FORMATS_OF_16_BITS = ("PNG", "PPM")  # Pillow returns their 16-bit numbers in 32 bits


@arguments.suggest
class Listing(NamedTuple):
    """The images of a folder.

    Attributes
    ----------
    paths : list of Path
        The files, ordered by class and name.
    labels : ndarray of int64, [n]
        The class of each file.
    classes : tuple of str
        The names of the folders, sorted; the number of a class is its index.
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
        The folder, with one subfolder for each class. Names that begin with a dot are skipped.

    Returns
    -------
    Listing
        In the same order on every machine.

    Raises
    ------
    FormatError
        There is no class, a class without an image, or a file without the extension of an image.
    OSError
        The folder cannot be read.
    """
    root = Path(path_of("image_folder.find", folder, name="folder"))
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
                    f"{file}: a class folder must contain only images ({', '.join(SUFFIXES)}), got "
                    f"{file.name!r}; move it elsewhere"
                )
        if not files:
            raise FormatError(
                f"{root / name}: a class must have at least one image, got none; add one, or "
                "remove the folder"
            )
        paths += files
        labels += [label] * len(files)
    return Listing(paths, np.array(labels, np.int64), tuple(names))


@arguments.suggest
def decode(
    path: str | os.PathLike[str],
    size: int | Sequence[int] | None = None,
    *,
    grayscale: bool = False,
    levels: Sequence[float] | None = None,
    background: float | None = None,
    max_pixels: int = _MAX_PIXELS,
) -> npt.NDArray[np.float32]:
    """Return the first frame of an image as an array, rotated as the file states.

    - The orientation of EXIF is applied.
    - 8-bit values are divided by 255, grayscale values of 9 to 16 bits by their maximum; if 0 is
      white in a 16-bit image, 0 becomes 1. 16-bit colors keep the upper 8 bits.
    - Floats in [0, 1] stay unchanged. Other floats, 32-bit and signed integers need `levels`, since
      their files do not state which value is white.
    - Palettes and CMYK are converted to red, green and blue, and colors to gray, as by Pillow,
      without color profiles.
    - Transparency is dropped and pixels keep their color; with `background` they are blended with
      the background.

    Parameters
    ----------
    path : str or path
        The file.
    size : int or two ints, optional
        Height and width to which the image is resized bilinearly; by default it is not resized.
    grayscale : bool
        True gives one channel instead of red, green and blue.
    levels : two floats, optional
        The values in the file for black and white; values beyond them are clipped.
    background : float in [0, 1], optional
        The gray of the background of transparent pixels: 1 for white.
    max_pixels : int, at least 1
        The size limit of the image, before it is decoded.

    Returns
    -------
    ndarray of float32, [channels, height, width]
        In [0, 1].

    Raises
    ------
    FormatError
        The file is not an image, damaged, truncated, has more than `max_pixels`, or values of an
        unknown range.
    MissingRequirementError
        Pillow is not installed.
    OSError
        The file cannot be opened.
    """
    who = "image_folder.decode"
    shape = None if size is None else checks.check_sizes(who, "size", size, rank=2, at_least=1)
    grayscale = checks.check_bool(who, "grayscale", grayscale)
    limit = checks.check_int(who, "max_pixels", max_pixels, at_least=1)
    scale = None if levels is None else _check_levels(who, levels)
    if background is not None:
        background = checks.check_float(who, "background", background, at_least=0.0, at_most=1.0)
    name = path_of(who, path, "file")
    image, black, white, opacity = _open(name, grayscale, scale, background, limit)
    if shape is not None and (image.height, image.width) != shape:
        image, opacity = (
            part and part.resize((shape[1], shape[0]), _load_pillow().Resampling.BILINEAR)
            for part in (image, opacity)
        )
    pixels: Any = np.asarray(image, np.float32).reshape(image.height, image.width, -1)
    pixels = pixels / np.float32(white) if not black else (pixels - black) / (white - black)
    if scale is not None:
        pixels = np.clip(pixels, 0, 1)
    if opacity is not None:
        share = np.asarray(opacity, np.float32)[..., None] / _BYTE
        pixels = pixels * share + np.float32(background) * (1 - share)
    if pixels.shape[2] == 1 and not grayscale:
        pixels = pixels.repeat(3, axis=2)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)


def _check_levels(who: str, levels: Any) -> tuple[np.float32, np.float32]:
    if isinstance(levels, str) or not isinstance(levels, Sequence) or len(levels) != 2:
        raise AttributeTypeError(
            f"{who}: levels must be the values of black and white, got {levels!r}; write "
            "levels=(0, 65535), for example"
        )
    black, white = (checks.check_float(who, f"levels[{i}]", levels[i]) for i in range(2))
    if black == white:
        raise AttributeValueError(
            f"{who}: levels must differ, got {levels!r}; write the values of black and white"
        )
    return np.float32(black), np.float32(white)


class _Opened(NamedTuple):
    """A Pillow image, its values for black and white, and the opacity of its pixels."""

    image: Any
    black: np.float32
    white: np.float32
    opacity: Any


def _open(
    name: str,
    grayscale: bool,
    levels: tuple[np.float32, np.float32] | None,
    background: float | None,
    limit: int,
) -> _Opened:
    image_module = _load_pillow()
    from PIL import ImageOps

    # Open the file here to recognize a missing file, since Pillow also raises OSError for invalid
    # content.
    with open(name, "rb") as file:
        try:
            image = image_module.open(file)
            if image.width * image.height > limit:
                raise FormatError(
                    f"{name}: an image may have at most {limit} pixels here, got {image.width} × "
                    f"{image.height}; raise max_pixels if the file is trusted"
                )
            kind = image.mode, image.format, getattr(image, "tag_v2", {})  # which copies lack
            image = ImageOps.exif_transpose(image)
            if kind[0].startswith(("I", "F")):  # Pillow would clip to 255
                numbers = np.asarray(image, np.float32)
                black, white = levels or _find_levels(name, *kind, numbers)
                return _Opened(image_module.fromarray(numbers), black, white, None)
            opacity = None
            if background is not None and image.has_transparency_data:
                image = image.convert("RGBA")
                opacity = image.getchannel("A")
            image = image.convert("L" if grayscale else "RGB")
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
                f"{name}: an image must be complete and of a format that Pillow reads, got "
                f"{type(error).__name__}: {error}; fetch the file again, or move it elsewhere"
            ) from error
    return _Opened(image, *(levels or (np.float32(0), np.float32(_BYTE))), opacity)


def _find_levels(
    name: str, mode: str, form: str, tags: Any, numbers: npt.NDArray[np.float32]
) -> tuple[np.float32, np.float32]:
    """Return the values for black and white of an image with more than 8 bits."""
    if mode.startswith("I;16"):
        most = np.float32((1 << tags.get(_BITS_PER_SAMPLE, (16,))[0]) - 1)
        return (most, np.float32(0)) if tags.get(_PHOTOMETRIC) == 0 else (np.float32(0), most)
    if mode == "I" and form in _FORMATS_OF_16_BITS:
        return np.float32(0), np.float32((1 << 16) - 1)
    if mode == "F" and bool(((numbers >= 0) & (numbers <= 1)).all()):
        return np.float32(0), np.float32(1)
    with np.errstate(invalid="ignore"):
        found = f"{numbers.min():g} to {numbers.max():g}" if numbers.size else "no pixel"
    kind = "32-bit or signed integers" if mode[0] == "I" else "floats"
    raise FormatError(
        f"{name}: an image must have 8 bits per channel, or be grayscale with up to 16 bits or "
        f"with floats in [0, 1], got {kind}, {found}; pass levels=(black, white)"
    )


@arguments.suggest
def read(
    folder: str | os.PathLike[str],
    size: int | Sequence[int],
    *,
    grayscale: bool = False,
    levels: Sequence[float] | None = None,
    background: float | None = None,
    max_pixels: int = _MAX_PIXELS,
) -> Dataset:
    """Read all images of a folder into memory; ``find(folder).classes`` are their names.

    Parameters
    ----------
    folder : str or path
        As for `find`.
    size, grayscale, levels, background, max_pixels
        As for `decode`; all images get the same size.

    Returns
    -------
    Dataset
        Images float32 [n, channels, height, width] in [0, 1], labels int64 [n].

    Raises
    ------
    FormatError, MissingRequirementError, OSError
        As for `find` and `decode`.
    """
    if size is None:
        raise AttributeTypeError(
            "image_folder.read: size must be given, since all images become one array, got None; "
            "write size=32, for example"
        )
    listing = find(folder)
    options: dict[str, Any] = {"grayscale": grayscale, "max_pixels": max_pixels}
    options |= {"levels": levels, "background": background}
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
