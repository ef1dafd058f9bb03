"""The registries of a Context: what operators, kernels, devices and passes there are, and whose."""

from opwright.registry.devices import (
    HOST_DEVICE,
    DeviceEntry,
    DeviceRegistry,
    join_device,
    split_device,
)
from opwright.registry.kernel_entry import KernelEntry, KernelKey
from opwright.registry.kernels import KernelRegistry
from opwright.registry.operators import OpRegistry
from opwright.registry.options import OptionEntry, OptionRegistry
from opwright.registry.package import (
    STD_DISTRIBUTION,
    Package,
    PluginFailure,
    PluginReport,
)
from opwright.registry.passes import PassEntry, PassRegistry
from opwright.registry.registrations import (
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    PassRegistration,
)
from opwright.registry.rules import ANY, PHASES

__all__ = [
    "OpRegistry",
    "KernelRegistry",
    "KernelEntry",
    "KernelKey",
    "DeviceRegistry",
    "DeviceEntry",
    "PassRegistry",
    "PassEntry",
    "OptionRegistry",
    "OptionEntry",
    "Package",
    "PluginFailure",
    "PluginReport",
    "OpRegistration",
    "KernelRegistration",
    "DeviceRegistration",
    "PassRegistration",
    "OptionRegistration",
    "ANY",
    "HOST_DEVICE",
    "join_device",
    "split_device",
    "PHASES",
    "STD_DISTRIBUTION",
]
