"""Operators that call PyTorch inside a plan, for ATen operators without a counterpart.

``torch.call`` executes a string: calls of ATen operators on the operator's inputs, written by
`opwright_torch.calls.text`. ``torch.random_call`` does so with random numbers seeded by the step of
the run.
"""
