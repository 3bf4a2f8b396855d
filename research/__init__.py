"""Experiments of papers, run again, and measurements of this code. A site does not need them: in a checkout only.

- ``runs``: experiments as lists of independent runs, one runner for all of them.
- ``ndrms``: the experiments of INRIA RR-7389, on applications that negotiate.
- ``grids``: those of two papers on several clusters.
- ``reservations``: those of a thesis on reservations that may move.
- ``mapping``: that of the same thesis on programs mapped over unlike nodes.
- ``benchmarks``: measurements, which ``oarpy bench`` runs.

``oarpy reproduce`` and ``oarpy bench`` start them; their libraries are the extra ``research``. They may import
everything, and nothing imports them.
"""

from __future__ import annotations
