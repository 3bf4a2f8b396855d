"""Structured logs on standard error: one event a line, as text or JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

import structlog

from oarpy import configuration
from oarpy.model.errors import UsageError
from oarpy.model.runs import runs

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_MOST_RANGES = 30


def job_ranges(jobs: Iterable[int]) -> str:
    """Return job ids for a log line: ranges, and how many there are in all when these are too many to be named.

    >>> job_ranges([7, 3, 4, 5])
    '3-5,7'
    """
    numbers = [*jobs]
    words = [f"{first}-{last}" if first < last else str(first) for first, last in runs(numbers)]
    more = f",... ({len(numbers)} jobs)" if len(words) > _MOST_RANGES else ""
    return ",".join(words[:_MOST_RANGES]) + more


def _stamp(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add the present time to a line, with the offset of the machine's time zone."""
    line["timestamp"] = datetime.now().astimezone().isoformat(timespec="milliseconds")
    return line


class _Log(structlog.WriteLogger):
    """A log that drops the lines it cannot write (full disk, no reader): no process may end for its log."""

    def msg(self, message: str) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):  # a ValueError: the stream was closed
            super().msg(message)

    log = debug = info = warning = error = critical = exception = msg


def check_settings(settings: configuration.Log) -> None:
    """Raise :class:`UsageError` for an unknown level or format."""
    if settings.level not in _LEVELS:
        raise UsageError(f"log.level '{settings.level}' is unknown", hint="one of " + ", ".join(_LEVELS))
    if settings.format not in ("text", "json"):
        raise UsageError(f"log.format '{settings.format}' is unknown", hint="text or json")


def configure_logging(settings: configuration.Log) -> None:
    """Set up structlog. Raises :class:`UsageError` for an unknown level or format."""
    check_settings(settings)
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if settings.format == "text":
        renderer = structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"])
    # as it is now: in a worker of the gateway, sys.stderr is that of the caller while a command runs
    log = _Log(sys.stderr)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _stamp,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        logger_factory=lambda *_: log,
        cache_logger_on_first_use=True,
    )
