"""Lines of other schedulers in a script (``#SBATCH``, ``#PBS``), read by ``oarsub -S`` as options of ours.

``reading`` finds the lines of a script; ``slurm`` and ``pbs`` translate an option each into a ``translation``, which
makes a request of what was asked for. What cannot be said here is left out, with a line that says so.

May import ``oarpy.client.submission.options`` and ``oarpy.model``.
"""

from __future__ import annotations
