"""Discovery finds installed plugins and fills registries with their registrations.

``discover`` runs a pipeline of the functions ``scan(paths) -> sources``, ``load(source) -> record``
and ``merge(records) -> registries``. The index keeps records between processes, so only the first
process after an install imports hook modules.
"""
