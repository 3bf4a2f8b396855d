"""Single values of a submission: what is read, what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oarpy.client.submission.values import check_directory, check_values, read_reservation
from oarpy.model.dependency import Dependency, Shift, parse_dependency
from oarpy.model.errors import UsageError
from oarpy.model.notice import parse_notice
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import LONGEST_COMMAND, check_output, read_number

NOW = datetime(2026, 5, 1, 12, 0, 0).astimezone()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


@pytest.mark.parametrize(
    ("text", "start", "seconds"),
    [
        ("now", NOW, None),
        ("2026-05-02 08:00:00", at("2026-05-02 08:00:00"), None),
        ("2026-05-02 8:30", at("2026-05-02 08:30:00"), None),
        ("2026-05-02 8", at("2026-05-02 08:00:00"), None),
        ("2026-05-02", at("2026-05-02 00:00:00"), None),
        ("18:30", at("2026-05-01 18:30:00"), None),
        ("2026-05-02 08:00:00, 2026-05-02 10:00:00", at("2026-05-02 08:00:00"), 7200),
        ("22:00, 02:00", at("2026-05-01 22:00:00"), 4 * 3600),
        ("now, 13:00", NOW, 3600),
        ("2026-05-01 11:59:30", NOW, None),
        ("2026-05-02T08:00:00Z", datetime(2026, 5, 2, 8, tzinfo=UTC), None),
        ("2026-05-02 08:00:00 +02:00", datetime(2026, 5, 2, 6, tzinfo=UTC), None),
        ("1777896000, +1h", datetime.fromtimestamp(1777896000, UTC), 3600),
        ("+1h", NOW + timedelta(hours=1), None),
        ("tomorrow 8:00, 9:30", at("2026-05-02 08:00:00"), 5400),
        ("saturday", at("2026-05-02 00:00:00"), None),
    ],
)
def test_reservation(text: str, start: datetime, seconds: int | None) -> None:
    assert read_reservation(text, NOW) == (start, seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "yesterday",
        "-1h",
        "someday",
        "2026-02-30 10:00:00",
        "2026-05-02 25:00:00",
        "2026-05-01 11:00:00",
        "2026-05-02 10:00, 2026-05-02 09:00",
        "2026-05-02 10:00,",
        "now, never",
        "9999-12-31 00:00:00",
        "\u0662026-05-02 10:00",
        "2026-05-0210:00",
    ],
)
def test_reservation_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_reservation(text, NOW)


def test_reservation_now_does_not_move() -> None:
    start, _ = read_reservation("now", NOW + timedelta(microseconds=5))
    assert start == NOW + timedelta(microseconds=5)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("7", Dependency(7)),
        ("ok:7", Dependency(7, "ok")),
        ("notok:12", Dependency(12, "notok")),
        ("7,[+60", Dependency(7, earliest=Shift("start", 60))),
        ("7,]-0:10:0", Dependency(7, earliest=Shift("end", -600))),
        ("7,,[+1:0:0", Dependency(7, latest=Shift("start", 3600))),
        ("ok:7,]0,]+5", Dependency(7, "ok", Shift("end", 0), Shift("end", 5))),
    ],
)
def test_dependency(text: str, read: Dependency) -> None:
    assert parse_dependency(text) == read
    assert parse_dependency(str(read)) == read


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "x", "ok:", "ok:x", "bad:7", "7,8", "7,+60", "7,[x", "7,[+9,[+3", "7,[1,[2,[3", "1" * 30, "\u0667"],
)
def test_dependency_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_dependency(text)


@pytest.mark.parametrize(
    "text",
    ["mail:ann@site.org", "mail:root", "exec:/usr/local/bin/tell -x", "[END,ERROR]mail:a@b", "[RUNNING] exec:/bin/x"],
)
def test_notice(text: str) -> None:
    parse_notice(text)


@pytest.mark.parametrize(
    "text",
    [
        "ann@site.org",
        "mail:",
        "mail:a b@c",
        "mail:a@b;rm",
        "exec:",
        "exec:rm -rf / ; echo",
        "exec:$(x)",
        "[SOON]mail:a@b",
        "[END mail:a@b",
        "fax:12",
        "mail:a@b\nBcc: c@d",
    ],
)
def test_notice_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_notice(text)


@pytest.mark.parametrize("path", ["out", "/tmp/%jobid%.out", "a b/c-d_e.%jobname%"])
def test_output(path: str) -> None:
    check_output("-O")(path)


@pytest.mark.parametrize("path", ["", "a;b", "a$b", "é", "a\nb", "a\0", "`x`", "x" * 5000])
def test_output_refused(path: str) -> None:
    with pytest.raises(UsageError, match="-O"):
        check_output("-O")(path)


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "11", "1.5", "\u0663", "9" * 40, "1e3"])
def test_number_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--array"):
        read_number("--array", text, 1, 10)


def test_directory(tmp_path: Path) -> None:
    check_directory(str(tmp_path))
    (tmp_path / "file").touch()
    for wrong in ("relative", str(tmp_path / "none"), str(tmp_path / "file"), "", "/tmp\0"):
        with pytest.raises(UsageError):
            check_directory(wrong)


GOOD = Submission("ann", command="date", directory="/", stdout="o", stderr="e")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "é"),
        ("name", "a\tb"),
        ("name", "x" * 300),
        ("project", ""),
        ("project", "ü"),
        ("types", ("",)),
        ("types", ("ω",)),
        ("types", tuple(f"t{i}" for i in range(60))),
        ("command", "a\0b"),
        ("command", "a\udc80b"),
        ("command", "x" * 1_000_000),
        ("array_parameters", ("1", "x" * LONGEST_COMMAND)),
        ("notify", "x"),
        ("dependencies", ("x",)),
        ("dependencies", tuple(str(i) for i in range(1, 2000))),
        ("directory", "here"),
        ("stdout", "a|b"),
        ("stderr", "a|b"),
    ],
)
def test_submission_with_one_bad_value(field: str, value: object) -> None:
    check_values(GOOD)
    changed: dict[str, Any] = {field: value}
    bad = replace(GOOD, **changed)
    with pytest.raises(UsageError) as refused:
        check_values(bad)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300
