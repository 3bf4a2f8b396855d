"""Programs in a job that runs already: steps, and the shell of an interactive job."""

from __future__ import annotations
