"""What all modules have in common: the loop around ``run_once``, logging, signs of life, and ending with the parent.

``module`` has the shape of a module and its :class:`~oarpy.modules.loop.module.Loop`; an *outcome* is what one run did.
``logging`` sets up the logs, ``parent`` ties a process to the life of the one that started it, and ``watchdog`` tells
that one that it lives. No module is known here. May import ``oarpy.store`` and everything below it.
"""

from __future__ import annotations
