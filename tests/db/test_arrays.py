"""Lists as parameters arrive in the database as they are."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.array import ListDumper

from oarpy.store.database import PlainListDumper
from tests.harness.small_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]

TEXTS = st.lists(st.one_of(st.sampled_from(["", "NULL", "null", "{}", ",", '"', "\\", " ", "a\tb\nc"]), st.text()))
NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1))
REALS = st.lists(st.floats(allow_nan=False))
MIXED = st.lists(st.one_of(st.none(), st.integers(0, 9)))


def arrives(connection: Connection, kind: str, value: list[object]) -> list[object]:
    row = connection.execute(f"SELECT %s::{kind}[]", [value]).fetchone()
    assert row is not None
    found: list[object] = row[0]
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, numbers=NUMBERS, reals=REALS, mixed=MIXED)
def test_a_list_arrives_as_it_is(
    connection: Connection, texts: list[str], numbers: list[int], reals: list[float], mixed: list[int | None]
) -> None:
    connection.adapters.register_dumper(list, PlainListDumper)
    good = [text.replace("\0", "").encode(errors="replace").decode() for text in texts]
    assert arrives(connection, "text", list(good)) == good
    assert arrives(connection, "bigint", list(numbers)) == numbers
    assert arrives(connection, "float8", list(reals)) == reals
    assert arrives(connection, "int", list(mixed)) == mixed


def test_what_the_database_cannot_hold_is_refused(connection: Connection) -> None:
    connection.adapters.register_dumper(list, PlainListDumper)
    with pytest.raises(psycopg.DataError):
        arrives(connection, "text", ["a\0b"])
    connection.adapters.register_dumper(list, ListDumper)
