"""Graph rewrites for this device only; opwright-std's passes do the rest."""
