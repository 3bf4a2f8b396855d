"""Values shared by every layer: requests of jobs, states, durations, errors.

- ``submission`` with ``submission_checks``: one call of ``oarsub``, field by field.
- ``request``, ``amounts``, ``dependency``, ``dates``, ``job_types``, ``notice``, ``windows``, ``file_names``: its
  grammars.
- ``resource_pattern``: resources to make, as admins write them.
- ``states``: states of jobs and resources, and the allowed moves. ``quota_calendar``: the rules valid at each time.
- ``durations``, ``setting_values``, ``typed_values``: texts and documents from outside become values.
- ``billing``: the billing units of use. ``runs``: ids that follow each other. ``node_types``: types of nodes.
- ``reasons``: why a job does not start, as facts and in words.
- ``errors``: errors that commands print for their users.

Nothing here does input or output. May import nothing else of oarpy.
"""

from __future__ import annotations
