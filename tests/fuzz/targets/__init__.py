"""One module for each kind of case: ``draw`` makes a random case, and ``run`` runs it.

A case is a dict of types known to `recorded.encode`, so it can be stored as a file and
outlives changes of ``draw``.
"""
