"""The registries of a Context: which operators, kernels, devices and passes packages provide."""

from opwright.registry.annexes import AnnexRegistry
from opwright.registry.devices import HOST, HOST_DEVICE, DeviceEntry, DeviceName, DeviceRegistry
from opwright.registry.kernel_entry import KernelEntry
from opwright.registry.kernels import KernelRegistry
from opwright.registry.operators import OpRegistry
from opwright.registry.options import OptionRegistry
from opwright.registry.passes import PassEntry, PassRegistry

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
