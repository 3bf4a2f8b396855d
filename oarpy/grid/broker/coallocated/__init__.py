"""Jobs with several components: parts on several clusters, all of them or none.

- ``job_files``: what is known of such a job. ``component_requests``: what its parts, and the core, are told of it.
- ``deadline_jobs`` start together: ``room_looks`` find room by ``cluster_room`` of clusters, ``common_starts`` says
  whether all parts started. ``named_jobs`` have their clusters and their date from their user.
- ``metajobs`` are one program on processors of clusters that the broker finds, by what is free when: ``free_slots`` are
  what clusters tell; ``moved_parts`` says which parts are their place while they move.
"""

from __future__ import annotations
