"""What the nodes of running jobs are told until each has answered: signals and kills, walltimes, pauses, resizes.

``orders`` has kills, signals and walltimes; ``suspending`` stops jobs and lets them go on; ``resizing`` has hosts come
and go. Each is a part of the launcher.
May import what ``oarpy.modules.launcher`` may.
"""

from __future__ import annotations
