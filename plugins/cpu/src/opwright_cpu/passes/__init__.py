"""The passes of the package; each module documents its operators and its purpose."""
