"""How nodes are reached: one persistent channel to each agent, over a pipe (``local``) or SSH (``ssh``).

- ``base`` is what the modules use; ``stream`` has channels over any bytes, ``inbox`` collects what all nodes say;
  ``wakeup`` is what a process waits for.
- ``bundle`` packs the ``agent``, which needs nothing installed on a node; ``node`` says how one is reached.
- ``steps`` are programs inside running jobs, each behind a channel of its own; ``fake`` is a transport for tests.

A *channel* opens with Ready and ends with ChannelLost; no method waits for a node. May import ``oarpy.model``,
``oarpy.frontend`` (what nodes get as commands) and ``oarpy.wire``.
"""

from __future__ import annotations
