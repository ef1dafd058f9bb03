"""The registries of a Context: which operators, kernels, devices and passes packages provide."""

from opwright.packages.package import Package, PluginFailure, PluginReport
from opwright.packages.registrations import (
    ANY,
    PHASES,
    AnnexRegistration,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    PassRegistration,
    fits_dtype,
)
from opwright.registry.devices import HOST, HOST_DEVICE, DeviceEntry, DeviceName, DeviceRegistry
from opwright.registry.kernel_entry import KernelEntry, KernelKey
from opwright.registry.kernels import KernelRegistry
from opwright.registry.named import AnnexRegistry, OptionRegistry, PassEntry, PassRegistry
from opwright.registry.operators import OpRegistry

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
    "AnnexRegistry",
    "Package",
    "PluginFailure",
    "PluginReport",
    "OpRegistration",
    "KernelRegistration",
    "DeviceRegistration",
    "PassRegistration",
    "OptionRegistration",
    "AnnexRegistration",
    "ANY",
    "DeviceName",
    "HOST",
    "HOST_DEVICE",
    "PHASES",
    "fits_dtype",
]
