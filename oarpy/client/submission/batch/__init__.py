"""Many submissions in one call (``oarsub --batch``): all of them or none.

``lines`` reads a batch. ``batch_submission`` takes its lines through the same checks and rules as single ones, and
stores them in one transaction. ``batch_site`` is what rules may ask meanwhile. ``batch_report`` tells what came of it.

May import the rest of ``oarpy.client.submission`` and what that may import.
"""

from __future__ import annotations
