"""Loads a plugin by importing its hook module, checking its hooks and collecting registrations.

pluggy's loader stops at the first plugin that fails, so each plugin is loaded separately. A plugin
that raises is quarantined with its traceback, and the other plugins are loaded.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
from collections.abc import Iterable
from typing import Any

from opwright.discovery.scan import PluginRecord, Source, WatchedFile
from opwright.errors import PluginError, RegistrationError
from opwright.foreign import import_object, raise_if_of_signal, show, text_of_error
from opwright.messages.names import hint
from opwright.packages import Package, PluginFailure
from opwright.packages.import_notes import NO_NOTES, ImportNotes
from opwright.packages.package import advise_command
from opwright.packages.rules import is_name

# The maximum lag of file times behind `time_ns`.
_CLOCK_GAP_NS = 20_000_000


def load(source: Source) -> PluginRecord:
    """Import the hook module of a plugin and run its hooks; raise any error of the plugin."""
    if not is_name(source.name):
        raise PluginError(
            f"{source.name}: name of an entry point must be lower_snake, as it is part of "
            f"operator types, got {source.name!r}; rename it"
        )
    importlib.import_module("opwright.discovery.hooks")  # its time is not caused by the plugin
    began_ns = time.time_ns()
    began = time.perf_counter()
    before = set(sys.modules)
    plugin = import_object(source.target)
    additions = _run_hooks(plugin, source.package)
    load_ms = (time.perf_counter() - began) * 1e3
    files = _watch(source.target.partition(":")[0], before, began_ns)
    return PluginRecord(source, *additions)._replace(files=files, load_ms=round(load_ms, 3))


def load_all(
    sources: Iterable[Source], strict: bool = False, notes: ImportNotes = NO_NOTES
) -> tuple[list[PluginRecord], list[PluginFailure]]:
    """Load plugins one by one; return the records of working plugins and all failures.

    `notes` records the hook module being imported; a module that has killed processes is skipped.
    With `strict`, raises PluginError for the first failure, with the plugin's error as its cause.
    """
    records: list[PluginRecord] = []
    failures: list[PluginFailure] = []
    for source in sources:
        package = source.package
        try:
            subject = source.target.partition(":")[0]
            with notes.noting(subject, package, "opwright.discovery.load:load", source):
                records.append(load(source))
        except KeyboardInterrupt as error:
            error.add_note(
                f"plugin {package.plugin!r} of {package.label} was being loaded; to see what it "
                "does: opwright doctor; to exclude it: name the others in OPWRIGHT_PLUGINS"
            )
            raise
        except BaseException as error:
            failure = describe_failure(package, error)
            if strict:
                raise strict_error(failure) from error
            failures.append(failure)
    return records, failures


def describe_failure(package: Package, error: BaseException) -> PluginFailure:
    """Return the failure of a plugin that raised `error`."""
    text = text_of_error(error).removeprefix(f"{package.plugin}: ")
    is_rule = isinstance(error, RegistrationError | PluginError)
    name = "" if is_rule else type(error).__name__ + (": " if text else "")
    trace = _trace_plugin(error)
    if not trace and not is_rule:  # a SyntaxError already shows the line
        import traceback  # here and below: 1 ms, for plugins that fail

        trace = show("".join(traceback.format_exception_only(error)))
    return PluginFailure(package, name + text, trace, advise_command(error, package))


def _trace_plugin(error: BaseException) -> str:
    """Return the traceback that starts in plugin code, or '' if no plugin code ran."""
    inner = error.__traceback__
    while inner is not None and is_machinery(inner.tb_frame.f_code.co_filename):
        inner = inner.tb_next
    if inner is None:
        return ""
    import traceback

    return show("".join(traceback.format_exception(type(error), error, inner)))


def is_machinery(path: str) -> bool:
    """Whether a file belongs to opwright, importlib or pluggy code that loads plugins."""
    file = path.replace("\\", "/")
    return (
        path.startswith("<frozen importlib")
        or file.rpartition("/")[0].endswith(("/opwright/discovery", "/importlib", "/pluggy"))
        or file.endswith("/opwright/foreign.py")
    )


def strict_error(failure: PluginFailure) -> PluginError:
    """Return the error that OPWRIGHT_STRICT=1 raises for a failure."""
    package = failure.package
    return PluginError(
        f"plugin {package.plugin!r} of {package.label} failed to load: {failure.reason}; "
        f"{failure.advice}, or exclude it with OPWRIGHT_PLUGINS, or unset OPWRIGHT_STRICT"
    )


def _run_hooks(plugin: Any, package: Package) -> tuple[Any, ...]:
    import pluggy  # takes 2-4 ms with the hooks; not needed if the index is complete

    from opwright.discovery import hooks

    manager = pluggy.PluginManager("opwright")
    manager.add_hookspecs(hooks)
    try:
        manager.register(plugin, package.plugin)
        _check_hooks(manager, hooks.HOOKS, package)
    except pluggy.PluginValidationError as error:
        raise PluginError(_describe_invalid(error)) from error
    additions = []
    for name, registrar_type in hooks.REGISTRARS.items():
        registrar = registrar_type(package)
        getattr(manager.hook, name)(registry=registrar)
        registrar.close()
        additions.append(tuple(registrar.additions))
    return tuple(additions)


def _check_hooks(manager: Any, known: tuple[str, ...], package: Package) -> None:
    """Raise for a plugin without hooks, and for a hook that is never called or adds no objects."""
    callers = manager.get_hookcallers(manager.get_plugin(package.plugin)) or []
    if not callers:
        raise PluginError(
            f"{package.plugin}: a plugin must implement a hook, got none; mark functions named "
            f"{', '.join(known)} with @opwright.plugin.hookimpl"
        )
    for caller in callers:
        implementations = caller.get_hookimpls()
        if caller.name not in known and not all(hook.optionalhook for hook in implementations):
            raise PluginError(
                f"{package.plugin}: unknown hook, got {caller.name!r}"
                f"{hint(caller.name, known, 'hooks')}"
            )
        # pluggy allows hooks to omit parameters, but without `registry` a hook cannot add anything.
        if caller.name in known and any("registry" not in h.argnames for h in implementations):
            raise PluginError(
                f"{package.plugin}: hook with a wrong signature, got {caller.name} without the "
                f"parameter 'registry'; write def {caller.name}(registry)"
            )


def _describe_invalid(error: BaseException) -> str:
    """Return pluggy's multi-line message about a wrong hook signature as one line."""
    text = " ".join(str(error).split())
    match = re.search(r"hookimpl definition: ((\w+)\(.*?\)) ", text)
    if match is None:
        return f"hook with a wrong signature: {text}"
    return f"hook with a wrong signature, got {match[1]}; write def {match[2]}(registry)"


def _watch(module: str, before: set[str], began_ns: int) -> tuple[WatchedFile, ...]:
    """Return the files on which the registrations may depend, with their times and sizes.

    The files are the hook module, its parent packages, and the modules of the same distribution
    that they imported. The result is empty if a file has no time, or changed while it was read.
    """
    top = module.partition(".")[0]
    # The imports of a module that was loaded earlier are unknown, so the whole package is used.
    known: set[str] = set() if module in before else before
    names = {n for n in sys.modules if n.split(".", 1)[0] == top and n not in known}
    parts = module.split(".")
    names |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    files = []
    for name in sorted(names):
        path = getattr(sys.modules.get(name), "__file__", None)
        if path is None:  # a namespace package, or created manually
            if name == module:
                return ()
            continue
        file = stat_file(path)
        if file is None or file.mtime_ns >= began_ns - _CLOCK_GAP_NS:
            return ()
        files.append(file)
    return tuple(files)


def stat_file(path: str) -> WatchedFile | None:
    """Return the current state of a file, or None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - hot
    except (OSError, ValueError) as error:  # ValueError for an impossible path
        raise_if_of_signal(error)
        return None
    return WatchedFile(path, status.st_mtime_ns, status.st_size)
