"""What an application that negotiates needs: jobs to speak for, profiles, launchers. Standard library only, Python 3.9.

- ``profiles``: how many hosts of a cluster are busy, as a function of time; a *view* has one for each cluster.
- ``run_times`` tells how long an application runs on which numbers of hosts.
- ``launchers`` choose hosts and a walltime from a view.
- ``negotiated_job`` is the job that a launcher speaks for. ``lasting_connection`` carries what is said, over
  ``line_streams``; ``exchange`` knows what has to be said again when the connection is lost.
- ``dask_cluster``: dask on one job. It alone needs more than the standard library: the extra ``dask``.

Times are seconds, or any other unit that is used throughout. They may be integers, fractions or floats; integers and
fractions are exact. Importable inside jobs. May import ``oarpy.wire``.
"""

from __future__ import annotations
