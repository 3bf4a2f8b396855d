"""Running jobs that grow and shrink, as passes see them: what is asked for them, and what others may take from them.

May import what ``oarpy.modules.metascheduler`` may.
"""

from __future__ import annotations
