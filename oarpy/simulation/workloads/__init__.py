"""Workloads made to order: the Lublin-Feitelson model and ESP2."""

from __future__ import annotations
