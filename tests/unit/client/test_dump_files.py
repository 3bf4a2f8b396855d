"""Dumps are files that any supported Python takes apart; what is no file in one is not followed."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import msgspec
import pytest

from oarpy.client.dumps import _DATABASE, _FACTS, DumpFacts, _read
from oarpy.model.errors import UsageError

CONTENT = b"PGDMP and more"
FACTS = DumpFacts("0085", 180000, "0.1.0", "2026-11-27", hashlib.sha256(CONTENT).hexdigest())


def written(path: Path, *, link: bool = False) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in ((_FACTS, msgspec.json.encode(FACTS)), (_DATABASE, CONTENT)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if link and name == _DATABASE:
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
            archive.addfile(member, io.BytesIO(content))
    return path


def test_a_dump_is_taken_apart(tmp_path: Path) -> None:
    facts, data = _read(written(tmp_path / "dump"), tmp_path)
    assert (facts, data.read_bytes()) == (FACTS, CONTENT)


def test_a_link_in_a_dump_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no dump of oarpy"):
        _read(written(tmp_path / "dump", link=True), tmp_path)
    assert not (tmp_path / _DATABASE).exists()
