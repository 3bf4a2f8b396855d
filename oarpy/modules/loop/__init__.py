"""What all modules have in common: the loop around ``run_once``, logging, and ending with the parent process.

``module`` has the shape of a module and its :class:`~oarpy.modules.loop.module.Loop`; an *outcome* is what one run did.
``logging`` sets up the logs, ``parent`` ties a process to the life of the one that started it. No module is known here.
May import ``oarpy.store`` and everything below it.
"""

from __future__ import annotations
