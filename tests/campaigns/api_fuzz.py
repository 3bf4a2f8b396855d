"""Requests that the OpenAPI description allows, and many that it does not, sent to every endpoint: none may fail.

``python -m tests.campaigns.api_fuzz --examples 500`` sends so many to each, on a database of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from oarpy.postgres import embedded_server
from oarpy.store.schema import migrations
from tests.harness.oarsub_cluster import build, run_pass
from tests.harness.web_client import web_client, web_settings

_ENDLESS = frozenset(("/api/v1/events",))
"""What answers for minutes has tests of its own."""


def fuzz(client: TestClient, examples: int) -> Counter[int]:
    """Send so many requests to each endpoint; return the statuses. Raises :class:`AssertionError` for one of 500."""
    app: Any = client.app
    schema = schemathesis.openapi.from_dict(app.openapi())
    statuses: Counter[int] = Counter()
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        if operation.path in _ENDLESS:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _try(client, operation.as_strategy(generation_mode=mode), examples, statuses)
    return statuses


def _try(client: TestClient, cases: Any, examples: int, statuses: Counter[int]) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def check(case: Any) -> None:
        request = case.as_transport_kwargs(base_url="http://testserver")
        words = {name: value for name, value in (request.get("headers") or {}).items() if _is_header(value)}
        body = {key: request[key] for key in ("json", "data") if request.get(key) is not None}
        try:
            answer = client.request(
                case.method,
                case.formatted_path,
                params=request.get("params"),
                headers=words,
                **body,
            )
        except (UnicodeError, ValueError, TypeError, httpx2.InvalidURL):
            return  # no client can send it
        statuses[answer.status_code] += 1
        told = f"{case.method} {case.formatted_path} {request.get('params')} {body}: {answer.text[:300]}"
        assert answer.status_code < 500, told

    with suppress(Unsatisfiable):  # nothing can be wrong with what takes nothing
        check()


def _is_header(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def main(arguments: list[str]) -> int:
    """Run the campaign on a server of its own; print how often each status came."""
    parser = argparse.ArgumentParser(prog="api_fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=500)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-api-fuzz-") as folder:
        os.chmod(folder, 0o711)
        server = Path(folder) / "server"
        dsn = embedded_server.start(server, settings={"fsync": "off"})
        try:
            migrations.upgrade(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                print(dict(sorted(campaign(dsn, connection, asked.examples).items())))
        finally:
            embedded_server.remove(server)
    return 0


def campaign(dsn: str, connection: Any, examples: int) -> Counter[int]:
    """Fuzz as an admin with a few jobs about, then as nobody; return the statuses."""
    build(connection)
    # known by the kernel: tokens are revoked on the way
    with web_client(web_settings(dsn), os.getuid()) as client:
        for _ in range(3):
            body = {"command": "true", "directory": "/", "alternatives": ["/nodes=2,walltime=1"]}
            client.post("/api/v1/jobs", json=body).raise_for_status()
        run_pass(connection)
        statuses = fuzz(client, examples)
    with web_client(web_settings(dsn)) as client:
        return statuses + fuzz(client, max(1, examples // 10))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
