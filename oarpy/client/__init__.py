"""The Python API behind the commands: the work of a command, as functions, and its results as text.

- ``submission``, ``jobs``, ``platform``, ``rules`` and ``past`` have one function or more for each command.
- ``session`` is a connection on behalf of a user; ``caller`` is the caller of a command, here or at the gateway's far
  end.
- ``rendering`` makes tables, JSON and CSV; ``boundary`` turns errors into one line and an exit status;
  ``plot_axes`` has round values for plots; ``pass_answers`` waits for the answers of passes.
- ``installation`` sets up a cluster; ``configuration_report`` and ``queries`` show settings and rows.

A function checks the rights of its user, acts in one transaction, and returns a value that a report makes into text.
May import ``oarpy.modules``, ``oarpy.simulation`` and everything below them.
"""

from __future__ import annotations
