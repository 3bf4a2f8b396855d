"""What runs on a node: standard library only, sent over the channel, nothing to install."""

from __future__ import annotations
