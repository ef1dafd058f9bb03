"""What only this package rewrites in a plan; opwright-std's passes do the rest."""
