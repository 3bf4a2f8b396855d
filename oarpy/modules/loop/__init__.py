"""The common part of all modules: the loop around ``run_once``, logging, signs of life, and ending with the parent.

``module`` has the shape of a module and its :class:`~oarpy.modules.loop.module.Loop`; an *outcome* is the result of one
run. ``logging`` sets up the logs, ``parent`` ties a process to the life of the process that started it, and
``watchdog`` sends that process signs of life. This package knows no module by name. May import ``oarpy.store`` and
everything below it.
"""

from __future__ import annotations
