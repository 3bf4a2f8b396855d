"""The launcher: the one module that talks to nodes. Starts jobs, kills them, records how they ended."""

from __future__ import annotations

from oarpy.modules.launcher.launcher import Launcher

__all__ = ["Launcher"]
