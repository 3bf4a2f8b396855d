"""The modules of a broker as processes: ``python -m oarpy.grid.modules NAME``, as ``oarpy server`` starts them.

``mapper`` gives jobs their clusters, ``claimer`` starts components together, ``watcher`` takes in the events of parts.
Their logic is in ``oarpy.grid.broker``; here they get their settings. May import ``oarpy.modules.loop`` and everything
below ``oarpy.grid``.
"""

from __future__ import annotations
