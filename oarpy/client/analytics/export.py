"""``oarpy export``: data sets as Parquet files, a folder a month, as DuckDB and Spark read them.

::

    DIR/jobs/month=2026-11/part-0.parquet
    DIR/accounting/month=2026-11/part-0.parquet

Each file has in its metadata a mark of the database's content for its month. A second run writes only the months that
differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oarpy.model.errors import OarpyError, UsageError
from oarpy.store.analytics import export_rows
from oarpy.store.database import Connection

if TYPE_CHECKING:
    import pyarrow

_KEY = b"oarpy.content"
_FILE = "part-0.parquet"
_NATIVE = (
    "bigint",
    "integer",
    "smallint",
    "boolean",
    "text",
    "text[]",
    "double precision",
    "date",
    "timestamp with time zone",
)
"""SQL types that Parquet has; values of all others are the texts that PostgreSQL writes."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Files that were written, as paths below the folder, and how many were as they should be."""

    written: tuple[str, ...]
    kept: int


def export(connection: Connection, folder: Path) -> Exported:
    """Write new and changed months of every data set. Killed at any moment, every file is whole.

    Raises :class:`UsageError` without pyarrow, :class:`OarpyError` when a file cannot be written.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UsageError("pyarrow is not installed", hint="pip install 'oarpy-scheduler[parquet]'") from None
    written, kept = [], 0
    with connection.transaction():
        export_rows.one_view(connection)
        kinds = {dataset: export_rows.columns(connection, dataset) for dataset in export_rows.DATASETS}
        for (dataset, month), content in export_rows.contents(connection).items():
            path = folder / dataset / f"month={month:%Y-%m}" / _FILE
            mark = f"{content}; {', '.join(kinds[dataset])}".encode()
            if _mark_of(path) == mark:
                kept += 1
                continue
            rows = export_rows.rows_of(connection, dataset, month, kinds[dataset], _NATIVE)
            _write(path, kinds[dataset], rows, mark)
            written.append(str(path.relative_to(folder)))
    return Exported(tuple(written), kept)


def _mark_of(path: Path) -> bytes | None:
    """Return the mark in a file; None if it is no file of ours."""
    import pyarrow
    from pyarrow import parquet

    try:
        metadata = parquet.read_schema(path).metadata or {}
    except (OSError, pyarrow.ArrowException):
        return None
    mark = metadata.get(_KEY)
    return mark if isinstance(mark, bytes) else None


def _write(path: Path, kinds: dict[str, str], rows: Iterable[list[export_rows.Row]], mark: bytes) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([(name, _arrow_type(kind)) for name, kind in kinds.items()], metadata={_KEY: mark})
    # readers of folders pass over names that begin with a dot
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
            for some in rows:
                values = zip(*some, strict=True)
                arrays = [pyarrow.array(column, field.type) for column, field in zip(values, schema, strict=True)]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
        draft.rename(path)
    except OSError as error:
        raise OarpyError(f"cannot write '{path}': {error.strerror or error}", hint="another place?") from error
    finally:
        draft.unlink(missing_ok=True)


def _arrow_type(kind: str) -> pyarrow.DataType:
    import pyarrow

    types = {
        "bigint": pyarrow.int64(),
        "integer": pyarrow.int32(),
        "smallint": pyarrow.int16(),
        "boolean": pyarrow.bool_(),
        "text[]": pyarrow.list_(pyarrow.string()),
        "double precision": pyarrow.float64(),
        "date": pyarrow.date32(),
        "timestamp with time zone": pyarrow.timestamp("us", "UTC"),
    }
    return types.get(kind, pyarrow.string())
