"""The passes of the package. Each module documents its operators and its purpose."""
