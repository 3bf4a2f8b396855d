"""What travels between processes: frames, lines, and the one table of messages. Standard library, Python 3.9.

- ``frames`` cuts a connection to the gateway or to a step into messages and bytes; ``lines`` cuts a channel to an
  agent.
- A ``structure`` is a value that travels. Its ``fields`` say what each part may hold; its decoding refuses all else.
- ``messages`` is the table of what server and agent say to each other, ``jobs`` what they say it about.
- ``steps`` is what a step begins with, ``openings`` what a connection to the gateway begins with.

Server, agent and a command's own process use the same modules: on a node they come packed with the agent's program. May
import nothing else of oarpy.
"""

from __future__ import annotations
