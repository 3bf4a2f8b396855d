"""A run event by event: forward, back, with its log, and the state after each event.

- ``stepped_run``: the interface of a run, and a function that plays a run to its stop.
- ``places``: the processors of running and planned jobs over time; ``chart`` follows a run with them.
- ``stepper``: goes to any event of a run, back too, by checkpoints.
- ``parting``: the first event at which two runs differ.
- ``trace_run``: a trace under a policy as such a run.
"""

from __future__ import annotations
