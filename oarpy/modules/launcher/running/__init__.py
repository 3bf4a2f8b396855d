"""Messages to the nodes of running jobs, until each has answered: signals and kills, walltimes, pauses, resizes.

``orders`` has kills, signals and walltimes; ``suspending`` stops jobs and lets them go on; ``resizing`` lets hosts come
and go. Each is a part of the launcher. May import the packages that ``oarpy.modules.launcher`` may.
"""

from __future__ import annotations
