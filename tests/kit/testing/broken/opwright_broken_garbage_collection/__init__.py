"""A plugin with a device whose arrays acquire its lock in their finalizers."""

import opwright.plugin as plugin


@plugin.hookimpl
def opwright_devices(registry):
    registry.add("broken_garbage_collection", "opwright_broken_garbage_collection.device:DEVICE")
