"""A database that does not know its characters is refused, in a sentence."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import sql

from oarpy.client.installation import upgrade
from oarpy.model.errors import UsageError

pytestmark = pytest.mark.db


def test_a_database_without_an_encoding_is_refused(server: str) -> None:
    name = f"test_{uuid.uuid4().hex}"
    make = "CREATE DATABASE {} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        maintenance.execute(sql.SQL(make).format(sql.Identifier(name)))
        try:
            with pytest.raises(UsageError) as refused:
                upgrade(psycopg.conninfo.make_conninfo(server, dbname=name))
        finally:
            maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    assert "has the encoding SQL_ASCII" in refused.value.message
    assert refused.value.hint == "make one with another: createdb --encoding UTF8 --locale C.UTF-8 --template template0"
