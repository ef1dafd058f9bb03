"""The registries of a Context, with the operators, kernels, devices and passes of packages."""

from opwright.registry.devices import HOST, HOST_DEVICE, DeviceEntry, DeviceName, DeviceRegistry
from opwright.registry.kernel_entry import KernelEntry
from opwright.registry.kernels import KernelRegistry
from opwright.registry.named import AnnexRegistry, OptionRegistry, PassEntry, PassRegistry
from opwright.registry.operators import OpRegistry

__all__ = [
    "OpRegistry",
    "KernelRegistry",
    "KernelEntry",
    "DeviceRegistry",
    "DeviceEntry",
    "DeviceName",
    "HOST",
    "HOST_DEVICE",
    "PassRegistry",
    "PassEntry",
    "OptionRegistry",
    "AnnexRegistry",
]
