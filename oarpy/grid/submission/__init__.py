"""How users of several clusters submit: their words become a grid job, which the broker's modules look after.

- ``grid_options``: the typed options. ``named_parts``: the texts of parts on named clusters. ``grid_draft``: the
  requested grid job. ``grid_submission`` stores it.
- ``rehearsal`` stores nothing: ``expected_ends`` says where a job would end when, ``spread_rehearsal`` where a program
  over clusters would begin.

May import the client and the store; only the last two modules speak to clusters.
"""

from __future__ import annotations
