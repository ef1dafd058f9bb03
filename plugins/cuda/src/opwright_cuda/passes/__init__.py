"""Graph rewrites for this device only; opwright-std has the device-independent passes."""
