"""Values shared by every layer: states, requests, durations, errors. Imports nothing else of oarpy."""

from __future__ import annotations
