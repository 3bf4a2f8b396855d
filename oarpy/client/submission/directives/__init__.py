"""Lines of a script with options: ours (``#OAR``), and those of other schedulers (``#SBATCH``, ``#PBS``).

``script`` reads the file and our own lines, for ``oarsub -S``. ``reading`` finds the lines of others; ``slurm`` and
``pbs`` translate an option each into a ``translation``, which makes a request of what was asked for. What cannot be
said here is left out, with a line that says so.

May import ``oarpy.client.submission.options`` and ``oarpy.model``.
"""

from __future__ import annotations
