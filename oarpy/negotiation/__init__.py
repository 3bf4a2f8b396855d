"""Applications that choose their own hosts: a slice, from what runs inside jobs to what passes decide about them.

The modules of this folder itself are for jobs. They need the standard library only (Python 3.9) and import nothing else
of oarpy but ``oarpy.wire``:

- ``profiles``: how many hosts of a cluster are busy, as a function of time; a *view* has one for each cluster.
  ``free_groups``: hosts that are free throughout. ``run_times``: how long an application runs on how many hosts.
- ``launchers`` choose hosts and a walltime from a view. ``negotiated_job`` is the job that a launcher speaks for:
  ``lasting_connection`` over ``line_streams`` carries ``messages``, ``exchange`` knows what has to be said again.
- ``dask_cluster``: dask on one job. It alone needs more: the extra ``dask``.

The folders are the cluster's side: ``core`` has the rules, ``store`` the rows, ``passes`` what a pass reads and writes,
``modules`` the negotiator and who runs launchers, ``requests`` what commands ask, ``simulation`` is
``oarpy negotiate``, ``local`` a demo. Times are seconds, or another unit used throughout; integers and fractions are
exact.
"""

from __future__ import annotations
