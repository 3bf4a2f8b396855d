"""How a node is reached: one persistent channel to the agent, over a pipe (local) or SSH."""

from __future__ import annotations
