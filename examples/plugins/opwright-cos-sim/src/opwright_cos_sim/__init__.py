"""The operator ``acme.cos_sim`` for opwright, compiled."""
