"""Lines of a script with options: ours (``#OAR``), and lines of other schedulers (``#SBATCH``, ``#PBS``).

``script`` reads the file and our own lines, for ``oarsub -S``. ``reading`` finds the lines of other schedulers;
``slurm`` and ``pbs`` translate each option into a ``translation``, which makes a request of them. An option that has no
counterpart here is left out, with a line that says so.

May import ``oarpy.client.submission.options`` and ``oarpy.model``.
"""

from __future__ import annotations
