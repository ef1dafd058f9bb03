"""One module for each kind of case: ``draw`` makes a random case, and ``run`` runs it.

A case is a dict of types that `recorded.encode` supports, so it can be stored as a file and remains
usable after ``draw`` has been changed.
"""
