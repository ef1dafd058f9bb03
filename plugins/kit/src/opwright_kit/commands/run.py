"""``opwright run``: runs a saved program, or a file that a package reads, on given arrays."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from opwright import LoadedProgram
from opwright.commands import (
    add_feed_argument,
    align,
    make_feeds,
    print_json,
    results_of,
)
from opwright.device import HOST_DEVICE
from opwright.errors import CommandError, FileMissingError
from opwright.op import dtype_from_numpy, format_shape
from opwright.plugin import hint
from opwright_kit.commands.models import check_device, is_foreign, open_model

_MAX_PRINTED: Final = 8
_MAX_JSON: Final = 1024
"""Elements of a result whose values are printed."""

Arrays = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the program, its feeds, and the output file."""
    parser.epilog = "Feeds without a file are random numbers, the same in each run."
    parser.add_argument("model", help="folder of a saved program, or a file such as model.onnx")
    parser.add_argument(
        "--input",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="feed the array of a .npy file; FILE.npz alone feeds all of its arrays by name",
    )
    add_feed_argument(parser)
    parser.add_argument("--output", metavar="FILE", help="write the results to this .npz file")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--device", default=HOST_DEVICE, help="device to run on (default: cpu)")


def run(args: argparse.Namespace) -> int:
    """Compute the results and describe them."""
    check_device(args.device)
    model, target = Path(args.model), None if args.output is None else Path(args.output)
    if target is not None and target.exists() and not args.force:
        raise CommandError(f"run: --output must be a new file, got {args.output}; add --force")
    given = _read_arrays(args.input)
    try:
        results = _compute(model, given, args)
    except FileMissingError as error:
        raise CommandError(str(error)) from error
    if target is not None:
        try:
            _write(target, results)
        except OSError as error:
            raise CommandError(f"run: {error.strerror}: {error.filename}") from error
    if args.json:
        plain = {name: _to_json(array) for name, array in results.items()}
        print_json({"results": plain, "output": args.output})
        return 0
    print(*align([_describe(name, array) for name, array in results.items()]), sep="\n")
    if target is not None:
        print(f"wrote {target}")
    return 0


def _compute(model: Path, given: Arrays, args: argparse.Namespace) -> dict[str, Any]:
    loaded = open_model("run", model, given)
    names = results_of(loaded)
    program = LoadedProgram(
        loaded.program, loaded.scope, names, loaded.program_feeds, device=args.device
    )
    feeds = [spec.name for spec in program.feeds]
    unknown = [name for name in given if name not in loaded.program_feeds]
    if unknown and not is_foreign(model):  # a reader has checked the names
        near = hint(unknown[0], feeds, "feeds")
        raise CommandError(f"run: --input must name a feed, got {unknown[0]!r}{near}")
    part = LoadedProgram(loaded.program, loaded.scope, names, feeds)
    fed = make_feeds("run", part, args.feed, {n: a for n, a in given.items() if n in feeds})
    return dict(zip(names, map(np.asarray, program(fed)), strict=True))


def _read_arrays(words: Iterable[str]) -> dict[str, Any]:
    """Return the arrays read from the given files, by feed name."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, path = word.rpartition("=")
        is_many = path.endswith(".npz")
        if is_many == bool(equals) or not path.endswith((".npy", ".npz")):
            raise CommandError(
                f"run: --input must be NAME=FILE.npy, or FILE.npz alone, got {word!r}"
            )
        try:
            content = np.load(path, allow_pickle=False)
            fresh = dict(content) if is_many else {name: content}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise CommandError(f"run: --input must contain NumPy arrays, got {error}") from error
        given.update(fresh)
    return given


def _write(path: Path, results: Arrays) -> None:
    # numpy.savez does not accept an array named "file".
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in results.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _spread(array: Any) -> tuple[float, float, float] | None:
    """Return the minimum, mean and maximum."""
    if not array.size:
        return None
    wide = array.astype(np.float64)
    return float(wide.min()), float(wide.mean()), float(wide.max())


def _describe(name: str, array: Any) -> tuple[str, ...]:
    kind = f"{dtype_from_numpy(array.dtype)}{format_shape(array.shape)}"
    if array.size <= _MAX_PRINTED:
        return name, kind, str(array.tolist())
    least, mean, most = _spread(array) or (0.0, 0.0, 0.0)
    return name, kind, f"from {least:.6g} to {most:.6g}, mean {mean:.6g}"


def _to_json(array: Any) -> dict[str, Any]:
    spread = _spread(array)
    return {
        "dtype": dtype_from_numpy(array.dtype),
        "shape": list(array.shape),
        **dict(zip(("min", "mean", "max"), spread or (None, None, None))),
        "values": array.astype(np.float64).tolist() if array.size <= _MAX_JSON else None,
    }
