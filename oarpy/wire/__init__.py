"""The messages between processes: frames, lines, and the one table of messages. Standard library, Python 3.9.

- ``frames`` cuts a connection to the gateway or to a step into messages and bytes; ``lines`` cuts a channel to an
  agent.
- A ``structure`` is a value that travels. Its ``fields`` say which values each part may hold; its decoding refuses all
  others.
- ``messages`` is the table of messages between server and agent, ``jobs`` has the jobs that they are about.
- ``steps`` has the first message of a step, ``openings`` the first message on a connection to the gateway.

Server, agent and a command's own process use the same modules: on a node they come packed with the agent's program. May
import nothing else of oarpy.
"""

from __future__ import annotations
