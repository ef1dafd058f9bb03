"""Discovery: finds installed plugins and fills registries with their registrations.

``scan(paths) -> sources``, ``load(source) -> record`` and ``merge(records) -> registries`` are a
pipeline of functions that ``discover`` runs. The index keeps records between processes, so
only the first process after an install imports hook modules.
"""
