"""Many submissions in one call (``oarsub --batch``): all of them or none.

``lines`` reads a batch. ``batch_submission`` takes its lines through the same checks and rules as single submissions,
and stores them in one transaction. ``batch_site`` answers the questions of rules meanwhile. ``batch_report`` prints the
results.

May import the rest of ``oarpy.client.submission`` and all that it may import.
"""

from __future__ import annotations
