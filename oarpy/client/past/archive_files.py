"""Files that hold a month of the past: SQL, which psql reads too, or a folder of Parquet files, one a table."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.model.typed_values import Misfit, from_json
from oarpy.store.past.archives import NATIVE_TYPES, TableContent

if TYPE_CHECKING:
    import pyarrow

_FORMAT = 1
_HEAD = b"-- oarpy archive "
_END = b"\\.\n"
_MANIFEST = "manifest.json"
_LONGEST_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """An archive's description of itself: ``month`` (first day), schema ``revision``, and the content of each table."""

    format: int
    month: str
    revision: str
    written_at: str
    tables: dict[str, TableContent]

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self), default=dict)


class ArchiveFile(Protocol):
    """An archive of either form."""

    path: Path

    @property
    def as_values(self) -> bool:
        """Whether rows are values of Python; else lines of COPY."""

    @contextmanager
    def writing(self, manifest: Manifest) -> Iterator[Any]:
        """Yield the object that :meth:`add` writes to; the file is there when all is written, or not at all."""

    def add(self, target: Any, table: str, columns: Mapping[str, str], rows: Iterable[Any]) -> None:
        """Write the rows of a table."""

    def manifest(self) -> Manifest:
        """Read its manifest. Raises :class:`OarpyError` for a file that is no archive."""

    def tables(self) -> Iterator[tuple[str, tuple[str, ...], Iterable[Any]]]:
        """Yield name, columns and rows of each table. Read the rows of a table before you ask for the next table."""


def archive_file(path: Path) -> ArchiveFile:
    """Return the archive of that name, whose ending gives its form. Raises :class:`UsageError`."""
    if path.name.endswith((".sql", ".sql.gz")):
        return SqlFile(path)
    if path.name.endswith(".parquet"):
        return ParquetFolder(path)
    raise UsageError(f"'{path.name[:80]}' is no name of an archive", hint="it ends in .sql, .sql.gz or .parquet")


def new_month(month: str, revision: str, written_at: str, tables: Mapping[str, TableContent]) -> Manifest:
    """Return the manifest of a new archive."""
    return Manifest(_FORMAT, month, revision, written_at, dict(tables))


class SqlFile:
    """One file: the manifest in its first line, then CREATE TABLE and COPY for each table; plain or gzip."""

    as_values = False

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def writing(self, manifest: Manifest) -> Iterator[IO[bytes]]:
        """Give the open file."""
        with _whole(self.path) as draft, self._opened(draft, "wb") as target:
            target.write(_HEAD + manifest.to_json().encode() + b"\n")
            target.write(b"CREATE SCHEMA IF NOT EXISTS oar_past;\n")
            yield target

    def add(self, target: IO[bytes], table: str, columns: Mapping[str, str], rows: Iterable[bytes]) -> None:
        """Write the rows of a table, given in the text form of COPY."""
        described = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        named = ", ".join(f'"{name}"' for name in columns)
        target.write(f'CREATE TABLE IF NOT EXISTS oar_past."{table}" ({described});\n'.encode())
        target.write(f'COPY oar_past."{table}" ({named}) FROM stdin;\n'.encode())
        for block in rows:
            target.write(block)
        target.write(_END)

    def manifest(self) -> Manifest:
        """Read the first line."""
        with _readable(self.path), self._opened(self.path, "rb") as source:
            head = source.readline(_LONGEST_HEAD)
            if not head.startswith(_HEAD):
                raise _damaged(self.path, "it does not begin as one")
            return _manifest(self.path, head.removeprefix(_HEAD).decode(errors="replace"))

    def tables(self) -> Iterator[tuple[str, tuple[str, ...], Iterable[bytes]]]:
        """Yield each table with its lines of COPY."""
        manifest = self.manifest()
        with _readable(self.path), self._opened(self.path, "rb") as source:
            for line in source:
                if line.startswith(b"COPY "):
                    name = line.split(b'"')[1].decode()
                    if name not in manifest.tables:
                        raise _damaged(self.path, f"table {name[:60]} is not in its manifest")
                    yield name, tuple(manifest.tables[name].columns), self._rows(source)

    def _rows(self, source: IO[bytes]) -> Iterator[bytes]:
        with _readable(self.path):
            for line in source:
                if line == _END:
                    return
                yield line
        raise _damaged(self.path, "its end is missing")

    def _opened(self, path: Path, mode: str) -> IO[bytes]:
        if self.path.suffix == ".gz":
            return gzip.open(path, mode, compresslevel=6)  # type: ignore[return-value]
        return path.open(mode)


class ParquetFolder:
    """A folder with a Parquet file for each table, and the manifest."""

    as_values = True

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise UsageError(
                "Parquet needs pyarrow", hint="pip install 'oarpy-scheduler[parquet]', or .sql.gz"
            ) from None

    @contextmanager
    def writing(self, manifest: Manifest) -> Iterator[Path]:
        """Give the folder."""
        with _whole(self.path) as draft:
            draft.mkdir()
            yield draft
            (draft / _MANIFEST).write_text(manifest.to_json() + "\n", encoding="utf-8")

    def add(
        self, target: Path, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[Sequence[object]]]
    ) -> None:
        """Write the rows of a table, given some at a time."""
        import pyarrow
        from pyarrow import parquet

        schema = pyarrow.schema([(name, _arrow_type(kind)) for name, kind in columns.items()])
        with parquet.ParquetWriter(target / f"{table}.parquet", schema, compression="zstd") as writer:
            for some in rows:
                columnwise = zip(*some, strict=True)
                values = [pyarrow.array(column, field.type) for column, field in zip(columnwise, schema, strict=True)]
                writer.write_table(pyarrow.Table.from_arrays(values, schema=schema))

    def manifest(self) -> Manifest:
        """Read the manifest."""
        with _readable(self.path):
            return _manifest(self.path, (self.path / _MANIFEST).read_text(encoding="utf-8"))

    def tables(self) -> Iterator[tuple[str, tuple[str, ...], Iterable[tuple[object, ...]]]]:
        """Yield each table with its rows."""
        import pyarrow
        from pyarrow import parquet

        for name, content in self.manifest().tables.items():
            try:
                with parquet.ParquetFile(self.path / f"{name}.parquet") as file:
                    if file.schema_arrow.names != list(content.columns):
                        raise _damaged(self.path, f"the columns of {name} are not those of its manifest")
                    yield name, tuple(content.columns), _parquet_rows(file)
            except (pyarrow.ArrowException, OSError) as error:
                raise _damaged(self.path, f"{name}.parquet: {str(error).splitlines()[0]}") from None


def _parquet_rows(file: Any) -> Iterator[tuple[object, ...]]:
    for batch in file.iter_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _arrow_type(kind: str) -> pyarrow.DataType:
    """Return the type in Parquet; values of other types are texts as PostgreSQL writes them."""
    import pyarrow

    native = (
        pyarrow.int64(),
        pyarrow.int32(),
        pyarrow.int16(),
        pyarrow.bool_(),
        pyarrow.string(),
        pyarrow.list_(pyarrow.string()),
        pyarrow.timestamp("us", "UTC"),
    )
    return dict(zip(NATIVE_TYPES, native, strict=True)).get(kind, pyarrow.string())


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a name to write to, which becomes ``path`` when all went well."""
    if path.exists():
        raise UsageError(f"'{path}' is there already", hint="another name, or remove it first")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        draft.rename(path)
    except OSError as error:
        raise OarpyError(f"cannot write '{path}': {error.strerror or error}", hint="another place?") from error
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"there is no archive '{path}'", hint="oarpy history list shows where they are") from None
    except (OSError, EOFError) as error:
        raise _damaged(path, str(error).splitlines()[0]) from None


def _manifest(path: Path, text: str) -> Manifest:
    try:
        manifest = from_json(text, Manifest)
    except (Misfit, UsageError) as error:
        raise _damaged(path, f"its manifest: {error}") from None
    if manifest.format != _FORMAT:
        raise _damaged(path, f"format {manifest.format} is unknown")
    return manifest


def _damaged(path: Path, what: str) -> OarpyError:
    return OarpyError(f"'{path}' is no whole archive: {what}", hint="nothing was changed")
