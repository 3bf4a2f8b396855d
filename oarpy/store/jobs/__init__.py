"""Jobs in SQL: submissions, listings, requests of users, the life of a job, what is told about it."""

from __future__ import annotations
