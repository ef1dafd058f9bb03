"""Stores plans of loaded programs, see `opwright.run.plan_cache`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opwright._runtime import read_host_array
from opwright.cache_folder import read_trusted, remove_oldest, write_trusted
from opwright.context import context as contexts
from opwright.context.guard import default_epoch, is_unchanged
from opwright.describe.dtypes import dtype_to_numpy
from opwright.disk import open_regular, remove_folder
from opwright.errors import OpwrightError
from opwright.lowering import lower
from opwright.program.files.safetensors_file import read_header
from opwright.program.files.writing import list_saved
from opwright.program.program import feed_names, persistable_variables
from opwright.program.serialize import program_to_bytes
from opwright.run.bundles.writing import list_chunks, lower_described
from opwright.run.plan_cache import (
    Place,
    Record,
    dump_record,
    find_place,
    parse_record,
    read_record,
    stat_of,
)

if TYPE_CHECKING:
    from opwright.lowering import LoweredPlan, LowerRequest
    from opwright.run.compiled import CompiledSource
    from opwright.run.loaded import LoadedProgram

_MOST_MODEL_BYTES: Final = 1 << 31
"""The maximum size in bytes of the parameters of translated models."""

_DAY_S: Final = 86_400
_MOST_FILES: Final = 4096
_MOST_BYTES: Final = 1 << 28
"""Maximum size of all plans in bytes; one of 50 layers takes 30,000. The oldest are removed."""


Keep = Callable[[Place, "LoadedProgram"], None]
"""Writes a plan of a saved state to the cache folder."""


def lower_and_keep(
    place: Place, loaded: LoadedProgram, source: CompiledSource, request: LowerRequest
) -> LoweredPlan:
    """Return the plan of a request, and store it.

    If the cache folder cannot be written, the next process lowers again.
    """
    lowered, keep = lower_to_keep(source, request)
    if keep is not None:
        keep(place, loaded)
    return lowered


def lower_to_keep(source: CompiledSource, request: LowerRequest) -> tuple[LoweredPlan, Keep | None]:
    """Return the plan of a request, and a function that stores it.

    Plans are not stored if bundles cannot contain them, such as plans with Python kernels, if the
    program writes variables, or if the Context is not the default one or has failed plugins.
    """
    context = request.target.context
    if context.epoch is not default_epoch or not is_unchanged() or context.failures:
        return lower(request), None
    lowered, describe, libraries = lower_described(source, request)
    metas = [(meta.shape, meta.dtype) for meta in request.given.metas.values()]
    return lowered, describe and partial(_keep, metas, describe, libraries)


def _keep(
    metas: object,
    describe: Callable[[], bytes],
    libraries: list[str],
    place: Place,
    loaded: LoadedProgram,
) -> None:
    """Write a plan to the cache folder; if that fails, the next process must lower it."""
    context = contexts.current_context()
    with contextlib.suppress(OpwrightError, OSError, ValueError):
        write_trusted(place.path_for(metas), list_chunks(describe(), []))
        record = read_record(place.stem) or _make_record(place, loaded)
        files = (*(file[0] for file in record.files), *_list_files(context), *libraries)
        record = record._replace(files=tuple(map(stat_of, dict.fromkeys(files))))
        write_trusted(f"{place.stem}.record", [dump_record(record)])
        remove_oldest(os.path.dirname(place.stem), "", _MOST_FILES, _MOST_BYTES)


def keep_model(folder: str, loaded: LoadedProgram, is_same: Callable[[], bool]) -> Place | None:
    """Save a program for `opwright.load_translated`; None if that is impossible.

    Later processes find it only if `is_same` still holds after its parameters have been written.
    """
    context, parent = contexts.current_context(), os.path.dirname(folder)
    if context.epoch is not default_epoch or context.failures:
        return None
    place = None
    with contextlib.suppress(OpwrightError, OSError, ValueError):
        os.makedirs(parent, 0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the record of a damaged model
            os.unlink(f"{folder}.record")
        if _write_model(folder, loaded) and is_same():
            place = find_place(folder)
        if place is not None:
            files = tuple(map(stat_of, dict.fromkeys(_list_files(context))))
            record = Record(0, [place.seen], (), (), (), (), files)
            write_trusted(f"{folder}.record", [dump_record(record)])
            _remove_oldest_models(parent)
            return place
    with contextlib.suppress(OSError):
        remove_folder(Path(folder))
    return None


def _write_model(folder: str, loaded: LoadedProgram) -> bool:
    """Write a program and its parameters; return False if it cannot be loaded."""
    program, scope = loaded.program, loaded.scope
    variables = {v.name: scope.find_var(v.name) for v in persistable_variables(program)}
    if tuple(feed_names(program)) != loaded.program_feeds or None in variables.values():
        return False
    arrays = {
        name: read_host_array(found, "keep") for name, found in variables.items()
    }  # no copies
    data = program_to_bytes(program, loaded.program_feeds, loaded._names)
    for name, chunks in list_saved(arrays, data, dict(loaded.notes)).items():
        write_trusted(os.path.join(folder, name), chunks)
    return True


def _remove_oldest_models(parent: str) -> None:
    """Remove the oldest models beyond the limit, and incomplete folders of ended processes."""
    ages = []
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError, ValueError):
            if name.endswith(".record"):
                size_bytes = parse_record(read_trusted(path, _MOST_BYTES)).params[-1][1]
                ages.append((os.stat(path).st_mtime_ns, path, size_bytes))
            elif os.path.isdir(path) and not os.path.exists(f"{path}.record"):
                is_old = os.stat(path).st_mtime < time.time() - _DAY_S
                if is_old:
                    remove_folder(Path(path))
    left = _MOST_MODEL_BYTES
    for _, path, size_bytes in sorted(ages, reverse=True):
        left -= size_bytes
        if left < 0:
            with contextlib.suppress(OSError):
                os.unlink(path)
                remove_folder(Path(path.removesuffix(".record")))


def _list_files(context: contexts.Context) -> Iterable[str]:
    """Yield all files of loaded plugins, since lowering depends on them."""
    tops = {"opwright"}
    for record in context.records:
        tops.add(record.source.target.partition(":")[0].partition(".")[0])
        yield os.path.join(record.source.location, "entry_points.txt")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] in tops:
            yield file


def _make_record(place: Place, loaded: LoadedProgram) -> Record:
    """Return the record of a saved state, without files; ValueError for unusual dtypes."""
    weights = []
    with open_regular(place.params, follow=True) as handle:
        for name, (meta, begin, _) in read_header(place.params, handle)[1].items():
            kind = dtype_to_numpy(meta.dtype)
            if kind.kind not in "fiu":
                raise ValueError(f"{meta.dtype} is checked when it is read")
            weights.append((name, str(kind), meta.shape, begin))
    n_ops = len(loaded._find_part().global_block().ops)
    feeds = loaded.feeds, loaded.fetches, loaded.program_feeds
    return Record(n_ops, [place.seen], *feeds, tuple(weights), ())
