"""Measurements, each one command: ``python -m benchmarks.NAME``. They print ratios and save JSON under ``results/``."""

from __future__ import annotations
