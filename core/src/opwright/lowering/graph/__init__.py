"""The lowered form that passes rewrite: operators over values, and the tools to change them."""
