"""Ranks of a program on the nodes of a job, which need no server once the job's nodes are connected.

::

    oarsrun -n (client) --socket--> holder --oarsh, held open--> node_ranks on each node --> ranks

``inside`` is where the command begins, ``options`` reads its line, ``client`` does the rest. The ``holder`` is one
process of a job: its first ``oarsrun -n`` leaves it behind, and it ends with the job. ``placement`` says which rank
runs where, ``node_connection`` begins a connection, ``links`` carry messages. ``pmi`` answers what programs of MPI ask.
``pmix`` leaves it all to ``prterun``. All of it runs as the job's user, in the job.
"""

from __future__ import annotations
