"""For plugin authors: the hooks and their registrars.

A plugin is a module, named by an entry point in the group ``opwright.plugins``. The module is a
table that only *names* its objects, and avoids slow imports. So discovery stays cheap, and each
object is imported, and each library opened, at first use.

>>> @hookimpl
... def opwright_ops(registry):
...     registry.add("acme.swish", "opwright_acme.swish:SWISH")
...     registry.add("acme.cos_sim", "opwright_acme/libacme.so")

The additions of a plugin take effect together, after all its hooks have returned. Registrations
must depend only on the plugin's files, because an index stores the registrations for later
processes. For example, whether a device is present is checked at its first use.
"""

from __future__ import annotations

from opwright.cache_folder import find_cache_folder, read_trusted, remove_oldest, write_trusted
from opwright.discovery.hooks import (
    HOOKS,
    AnnexRegistrar,
    DeviceRegistrar,
    KernelRegistrar,
    OpRegistrar,
    OptionRegistrar,
    PassRegistrar,
    hookimpl,
    hookspec,
    opwright_annexes,
    opwright_devices,
    opwright_kernels,
    opwright_ops,
    opwright_options,
    opwright_passes,
)
from opwright.discovery.scan import GROUP, PluginRecord, Source, scan
from opwright.disk import path_of
from opwright.foreign import describe_error, import_object
from opwright.messages.arguments import check_arguments, suggest_arguments
from opwright.messages.names import find_nearest, hint, hint_argument
from opwright.packages import Package, PluginFailure
from opwright.packages.rules import is_library, is_name
from opwright.program.building import adapt_inputs
from opwright.program.journal import record as record_undo
from opwright.program.transforms import find_moving_ops

__all__ = [
    "hookimpl",
    "hookspec",
    "opwright_ops",
    "opwright_kernels",
    "opwright_devices",
    "opwright_passes",
    "opwright_options",
    "opwright_annexes",
    "OpRegistrar",
    "KernelRegistrar",
    "DeviceRegistrar",
    "PassRegistrar",
    "OptionRegistrar",
    "AnnexRegistrar",
    "GROUP",
    "HOOKS",
    "adapt_inputs",
    "Package",
    "PluginFailure",
    "PluginRecord",
    "Source",
    "check_arguments",
    "describe_error",
    "find_cache_folder",
    "find_nearest",
    "hint",
    "hint_argument",
    "find_moving_ops",
    "import_object",
    "is_library",
    "is_name",
    "path_of",
    "read_trusted",
    "record_undo",
    "remove_oldest",
    "scan",
    "suggest_arguments",
    "write_trusted",
]
