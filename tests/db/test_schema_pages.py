"""The chapter on the database and the diagrams of states are complete and current."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from oarpy.model.states import TRANSITIONS
from oarpy.store.schema.checks.catalog import describe

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def schema_pages() -> ModuleType:
    """The script that writes the pages."""
    spec = importlib.util.spec_from_file_location("schema_pages", DOCS / "schema_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.db
def test_pages_are_current(schema_pages: ModuleType, dsn: str) -> None:
    assert schema_pages.stale(schema_pages.pages(dsn)) == [], "run: python docs/schema_pages.py"


@pytest.mark.db
def test_every_table_and_column_has_a_purpose(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    tables = describe(connection)
    assert [table.name for table in tables if not table.comment] == []
    missing = [f"{table.name}.{column.name}" for table in tables for column in table.columns if not column.comment]
    assert missing == []


@pytest.mark.db
def test_chapter_names_every_table_view_and_column(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    chapter = (DOCS / "database.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^#|\Z)", chapter, re.M | re.S))
    expected = {table.name: table for table in describe(connection)}
    expected |= {f"oar_report.{view.name}": view for view in describe(connection, "oar_report")}
    assert sections.keys() == expected.keys()
    for title, relation in expected.items():
        for column in relation.columns:
            assert f"| `{column.name}` |" in sections[title]


def test_diagram_shows_every_move(schema_pages: ModuleType) -> None:
    page = (DOCS / "states.md").read_text(encoding="utf-8")
    assert page == schema_pages.states_page(), "run: python docs/schema_pages.py"
    for move in TRANSITIONS:
        assert f"    {move.source} --> {move.target}: {move.event}\n" in page
