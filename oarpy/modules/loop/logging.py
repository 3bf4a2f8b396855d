"""Structured logs on standard error: one event a line, as text or JSON."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

import structlog

from oarpy import configuration
from oarpy.model.errors import UsageError

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Log(structlog.WriteLogger):
    """Loses a line that cannot be written (a full disk, a reader that is gone): no process may end for its log."""

    def msg(self, message: str) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):  # a ValueError: the stream was closed
            super().msg(message)

    log = debug = info = warning = error = critical = exception = msg


def configure_logging(settings: configuration.Log) -> None:
    """Set up structlog. Raises :class:`UsageError` for an unknown level or format."""
    if settings.level not in _LEVELS:
        raise UsageError(f"log.level '{settings.level}' is unknown", hint="one of " + ", ".join(_LEVELS))
    if settings.format not in ("text", "json"):
        raise UsageError(f"log.format '{settings.format}' is unknown", hint="text or json")
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if settings.format == "text":
        renderer = structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"])
    # as it is now: in a worker of the gateway, sys.stderr is that of the caller while a command runs
    log = _Log(sys.stderr)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        logger_factory=lambda *_: log,
        cache_logger_on_first_use=True,
    )
