"""Devices: what a plugin's device must provide, and how arrays reach it. The public face of the room."""
