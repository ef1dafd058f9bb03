"""Plugins: from what is installed to a Context with filled registries.

``scan(paths) -> sources``, ``load(source) -> record``, ``merge(records) -> registries``: a pipeline
of pure functions, which ``discover`` runs and ``context`` keeps. The index stands between the first
two, so that only the first process after an install imports hook modules.
"""
