"""What an application that negotiates needs: profiles, run times, launchers. Standard library only, Python 3.9.

- ``profiles``: how many hosts of a cluster are busy, as a function of time; a *view* has one for each cluster.
- ``run_times`` tells how long an application runs on which numbers of hosts.
- ``launchers`` choose hosts and a walltime from a view.

Times are seconds, or any other unit that is used throughout. They may be integers, fractions or floats; integers and
fractions are exact. Importable inside jobs. May import ``oarpy.wire``.
"""

from __future__ import annotations
