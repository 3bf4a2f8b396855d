"""What the nodes of running jobs are told until each has answered: signals and kills, walltimes, pauses, resizes.

Each module is a part of the launcher: it hears reports, and the round has it tell nodes and record what they have done.
May import what ``oarpy.modules.launcher`` may.
"""

from __future__ import annotations
