"""The experiments of INRIA RR-7389 (NDRMS), replayed: ``oarpy reproduce ndrms``.

- ``workloads``: the platform of the source, and its applications, drawn from the log of LLNL Atlas.
- ``oar_like``: the system that it compares with, which is sent all configurations of every application.
- ``experiments``: one run, in either system, and what is measured of it, as the runner wants it.
- ``figures``: which runs make a figure. ``claims``: what the source says of it, and whether it holds here.
- ``charts`` draws the figures, ``reproduction`` is the command.

A *draw* is one set of random numbers; its number is its seed. A *reading* is a way to understand the source where it
says two things: of rank, and of the sizes of jobs. Time is in whole milliseconds, so that runs are exact and quick.
May import the runner, ``oarpy.simulation`` and what is below it.
"""

from __future__ import annotations
