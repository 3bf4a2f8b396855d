"""Values from outside: what fits becomes typed, what does not is told by its place and its kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.model.errors import UsageError
from oarpy.model.typed_values import Misfit, from_json, from_values, shown


class Shelf(Struct, forbid_unknown_fields=True):
    """Something with a value of every kind."""

    number: Annotated[int, Meta(ge=0, le=9)]
    size: int | float = 0
    place: Literal["left", "right"] = "left"
    label: Annotated[str, Meta(min_length=1)] = "none"
    open: bool = False
    since: datetime | None = None
    books: dict[str, list[str]] = {}


class Room(Struct, forbid_unknown_fields=True):
    """What holds them."""

    shelves: Annotated[list[Shelf], Meta(min_length=1)]
    rows: Annotated[int, Meta(gt=0, description="a number of rows above 0")] = 1
    best: Shelf | UnsetType = UNSET


def shelf(**values: Any) -> dict[str, Any]:
    return {"shelves": [{"number": 1}, {"number": 2} | values]}


def test_what_fits_is_typed() -> None:
    room = from_json('{"shelves": [{"number": 1, "size": 2.5, "since": "2030-01-01T00:00:00Z"}]}', Room)
    assert room == Room([Shelf(1, 2.5, since=datetime(2030, 1, 1, tzinfo=UTC))])
    assert from_values({"shelves": [{"number": 1}]}, Room) == Room([Shelf(1)])
    assert from_values("7", int, strict=False) == 7


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (7, "room: 7 is not an object"),
        ({}, "room: key 'shelves': missing"),
        ({"shelves": []}, "room: key 'shelves': an empty list is not a list with at least one entry"),
        ({"shelves": {}}, "room: key 'shelves': an object is not a list with at least one entry"),
        ({"shelves": [{"number": 1}, 5]}, "room: key 'shelves': 5 is not an object"),
        ({"shelves": [{"number": 1}], "rows": 0}, "room: key 'rows': 0 is not a number of rows above 0"),
        ({"shelves": [{"number": 1}], "row": 1}, "room: key 'row': unknown key (known: best, rows, shelves)"),
        (shelf(number=10), "room: shelves 2: key 'number': 10 is not a whole number"),
        (shelf(number=True), "room: shelves 2: key 'number': True is not a whole number"),
        (shelf(size="L"), "room: shelves 2: key 'size': 'L' is not a number"),
        (shelf(place="top"), "room: shelves 2: key 'place': 'top' is not one of left, right"),
        (shelf(label=""), "room: shelves 2: key 'label': '' is not a word"),
        (shelf(open=1), "room: shelves 2: key 'open': 1 is not true or false"),
        (shelf(since="now"), "room: shelves 2: key 'since': 'now' is not a date"),
        (shelf(books=[]), "room: shelves 2: key 'books': an empty list is not an object"),
        (shelf(books={"a": 1}), "room: shelves 2: key 'books': a value in it is not a list"),
        (shelf(books={"a": [1]}), "room: shelves 2: key 'books': a value in it is not a string"),
        ({"shelves": [{"number": 1}], "best": {"number": "x"}}, "room: best: key 'number': 'x' is not a whole number"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(values: object, text: str) -> None:
    with pytest.raises(Misfit) as caught:
        from_values(values, Room)
    assert str(caught.value.error("room")) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"shelves": [{"number": 1}], "shelves": [{"number": 2}]}',
        '{"shelves": [{"number": 1, "books": {"a": [], "shelves": [], "shel\\u0076es": []}}]}',
    ],
)
def test_a_key_that_is_there_twice_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="the key 'shelves' is there twice in one object"):
        from_json(text, Room)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"shelves": ' + "[" * 100_000, '{"shelves": 1, "rows": ,}'])
def test_what_is_no_json_is_one_error(text: str) -> None:
    with pytest.raises((UsageError, Misfit)) as caught:
        from_json(text, Room)
    assert len(str(caught.value).splitlines()) == 1


def test_long_values_are_cut() -> None:
    assert shown("x" * 100) == "'" + "x" * 59 + "..."
    assert shown({"a": 1}) == "an object"
