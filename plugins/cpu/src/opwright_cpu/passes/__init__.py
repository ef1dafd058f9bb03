"""What the package rewrites in a plan: each module says which operators it looks for and why."""
