"""Programs in a job that runs already: ``step`` runs one, ``interactive_shell`` ties a job to the shell of its user.

``change_bell`` hears that another agent changed a job. May import ``job`` and ``statedir`` of the agent, and
``oarpy.wire``.
"""

from __future__ import annotations
