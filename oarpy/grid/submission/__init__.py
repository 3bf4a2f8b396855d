"""How users of several clusters submit: what they type becomes a grid job, which the broker's modules look after.

- ``grid_options``: what was typed. ``named_parts``: the texts of parts on named clusters. ``grid_draft``: the grid job
  asked for. ``grid_submission`` stores it, ``expected_ends`` says where it would end when.

May import the client and the store; nothing here speaks to a cluster but ``expected_ends``.
"""

from __future__ import annotations
