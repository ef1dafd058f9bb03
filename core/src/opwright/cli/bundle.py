"""``opwright bundle`` writes a saved program as a file that runs without Python."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from opwright.cli.command import print_report, resolving
from opwright.cli.feeds import read_feed
from opwright.errors import CommandError, FileMissingError
from opwright.run.loading import load

if TYPE_CHECKING:
    from opwright.run.loaded import LoadedProgram


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder, the shapes of feeds, the batches and the file."""
    parser.add_argument("folder", help="folder that opwright.save has written")
    parser.add_argument(
        "--feed",
        metavar="NAME=SHAPE",
        action="append",
        default=[],
        help="the shape of a feed, with n for the batch, as in x=nx784",
    )
    parser.add_argument("--batch", metavar="FIRST:LAST", help="the batches, as in 1:64")
    parser.add_argument("--output", metavar="FILE", help="the file (default: FOLDER.owb)")


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    output = args.output or f"{args.folder.rstrip('/')}.owb"
    with resolving():
        feeds = {
            name or "": [None if dim < 0 else dim for dim in shape]
            for name, shape, _ in (read_feed("bundle", text) for text in args.feed)
        }
        loaded = _load(args.folder)
        try:
            loaded.bundle(output, feeds, _parse_batch(args.batch))
        except OSError as error:
            raise CommandError(f"bundle: {output} must be a writable file, got {error}") from error
    print_report(args, {"file": output}, [f"wrote {output}"])
    return 0


def _load(folder: str) -> LoadedProgram:
    try:
        return load(folder)
    except FileMissingError as error:
        raise CommandError(f"bundle: {error}") from error


def _parse_batch(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,12})(?::(\d{1,12}))?", text)
    if match is None:
        raise CommandError(f"bundle: --batch must be FIRST:LAST, got {text!r}; write 1:64")
    return int(match[1]), int(match[2] or match[1])
