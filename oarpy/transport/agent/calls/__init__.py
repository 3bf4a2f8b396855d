"""Commands that users run on the node, and the way of their conversation to the gateway."""

from __future__ import annotations
