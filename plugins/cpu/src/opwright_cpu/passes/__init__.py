"""The passes of the package: each module documents its operators and the reason."""
