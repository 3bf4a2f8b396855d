"""A run event by event: forward, back, with its log, and what is the case after each event.

- ``stepped_run``: what a run offers, and a run played to where it is to stop.
- ``places``: who holds which processors when, and who is planned where; ``chart`` follows a run with it.
- ``stepper``: goes to any event of a run, back too, by checkpoints.
- ``parting``: the first event at which two runs differ.
- ``trace_run``: a trace under a policy as such a run.
"""

from __future__ import annotations
