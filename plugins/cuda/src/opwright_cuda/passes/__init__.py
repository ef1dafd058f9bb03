"""Graph rewrites for this device only; the device-independent passes are in opwright-std."""
