"""Jobs with several components: parts on several clusters, all of them or none.

- ``job_files``: the rows of such a job. ``component_requests``: the requests that its parts and the core get.
- ``deadline_jobs`` start together: ``room_looks`` find room by ``cluster_room`` of clusters, ``common_starts`` says
  whether all parts started. ``named_jobs`` have their clusters and their date from their user.
- ``metajobs`` are one program on processors of several clusters, which the broker finds in ``free_slots``, the answers
  of clusters about free processors; ``moved_parts`` says which parts are their place while they move.
"""

from __future__ import annotations
