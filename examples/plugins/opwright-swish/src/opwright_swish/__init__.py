"""The operator ``acme.swish`` for opwright."""
