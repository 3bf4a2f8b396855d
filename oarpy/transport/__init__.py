"""How nodes are reached: one persistent channel to each agent, over a pipe (``local``) or SSH (``ssh``).

- ``base`` is the interface for modules; ``stream`` has channels over any bytes, ``inbox`` collects the reports of all
  nodes; ``wakeup`` wakes a process.
- ``bundle`` packs the ``agent``, which needs nothing installed on a node; ``node`` says how a node is reached.
- ``steps`` are programs inside running jobs, each behind a channel of its own; ``fake`` is a transport for tests.

A *channel* opens with Ready and ends with ChannelLost; no method waits for a node. May import ``oarpy.model``,
``oarpy.frontend`` (the commands that nodes get) and ``oarpy.wire``.
"""

from __future__ import annotations
