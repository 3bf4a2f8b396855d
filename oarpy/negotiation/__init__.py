"""Applications that choose their own hosts: a slice, from the programs inside jobs to the decisions of passes.

The modules of this folder itself are for programs inside jobs. They need the standard library only (Python 3.9) and
import nothing else of oarpy but ``oarpy.wire``:

- ``profiles``: the number of busy hosts of a cluster, as a function of time; a *view* has one for each cluster.
  ``free_groups``: hosts that are free throughout. ``run_times``: the run time of an application by its hosts.
- ``launchers`` choose hosts and a walltime from a view. ``negotiated_job`` is the job that a launcher speaks for:
  ``lasting_connection`` over ``line_streams`` carries ``messages``, and ``exchange`` tracks the messages that must be
  sent again.
- ``dask_cluster``: dask on one job. Only this module needs more: the extra ``dask``.

The folders are the cluster's side. ``core`` has the rules, ``store`` the rows, ``passes`` the reading and writing of
passes. ``modules`` has the negotiator and runs launchers, ``requests`` serves commands. ``simulation`` is ``oarpy
negotiate``, ``local`` a demo. Times are seconds, or another unit used throughout; integers and fractions are exact.
"""

from __future__ import annotations
