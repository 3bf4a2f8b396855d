"""How users of several clusters submit: what they type becomes a grid job, which the broker's modules look after.

- ``grid_options``: what was typed. ``named_parts``: the texts of parts on named clusters. ``grid_draft``: the grid job
  asked for. ``grid_submission`` stores it.
- ``rehearsal`` stores nothing: ``expected_ends`` says where a job would end when, ``spread_rehearsal`` where a program
  over clusters would begin.

May import the client and the store; nothing here speaks to a cluster but the last two.
"""

from __future__ import annotations
