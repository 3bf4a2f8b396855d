"""``oarsub`` and ``oarwindow``: windows, offers of refused reservations, and taking them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from oarpy.questions.table import answer
from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass
from tests.harness.passes_beside import offers, passes

pytestmark = [pytest.mark.db, pytest.mark.kept]
ALL = "/nodes=4,walltime=1:0:0"


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_WAITING_RESERVATIONS_PER_USER", "50")
    monkeypatch.setenv("OARPY_SCHEDULER_SECURITY_TIME", "0")


@pytest.fixture
def answered(dsn: str, oarsub: Submitter) -> Iterator[Submitter]:
    """Return a way to submit to a cluster whose passes run beside."""
    with passes(dsn):
        yield oarsub


def in_hours(hours: float) -> str:
    return (datetime.now() + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S")


def test_a_window_is_shown_and_moves(answered: Submitter, connection: Connection) -> None:
    begin = in_hours(2)
    flexible = answered.job_id("-r", begin, "--slack", "200%", "-l", ALL, "date")
    shown = json.loads(answered("-J", "-j", str(flexible), command="oarstat").out)[str(flexible)]["window"]
    assert (shown["deadline"] - shown["ready"], shown["state"]) == (3 * 3600, "movable")
    strict = answered("-r", begin, "-l", ALL, "date")
    assert strict.status == 0
    assert "RESERVATION_MOVED: it starts at " in answered("-f", "-j", str(flexible), command="oarstat").out


def test_time_travel_tells_the_window_of_then(answered: Submitter, connection: Connection) -> None:
    begin = in_hours(2)
    job = str(answered.job_id("-r", begin, "--slack", "200%", "-l", ALL, "date"))
    ((then,),) = connection.execute("SELECT clock_timestamp()::text").fetchall()
    answered.job_id("-r", begin, "-l", ALL, "date")
    now = json.loads(answered("-J", "-j", job, command="oarstat").out)[job]
    past = json.loads(answered("-J", "-j", job, "--at", then, command="oarstat").out)[job]
    assert {**past["window"], "start": now["startTime"]} == {**now["window"], "start": past["window"]["start"] + 3600}
    told = answered("--why", job, "--at", then, command="oarstat").out
    assert re.search(r"Its window was .* to .*, its start .*; it could move\.$", told.strip()), told


def test_an_offer_is_for_those_who_may_have_one_more_reservation(
    answered: Submitter, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = in_hours(2)
    answered.job_id("-r", begin, "-l", ALL, "date")
    number, *_ = offers(answered("-r", begin, "-l", ALL, "date").out)[0]
    monkeypatch.setenv("OARPY_SUBMISSION_WAITING_RESERVATIONS_PER_USER", "1")
    before = contents(connection)
    result = answered("--accept", number)
    assert (result.status, result.out, result.err.count("\n"), "at most 1 may" in result.err) == (3, "", 1, True)
    after = contents(connection)
    assert [table for table in after if after[table] != before[table]] in ([], ["scheduling_passes"])


def test_who_is_refused_takes_an_offer(answered: Submitter, connection: Connection) -> None:
    begin, end = in_hours(2), in_hours(3.5)
    answered.job_id("-r", begin, "-l", ALL, "date")
    refused = answered("-r", begin, "--until", end, "-l", ALL, "--", "date", "-u")
    assert refused.status == 3
    before, after = offers(refused.out)
    assert [before[3], after[3]] == ["0.50", "1.00"] or [before[3], after[3]] == ["1.00", "0.50"]
    number, start, end, _ = min(before, after, key=lambda one: one[3])
    taken = answered("--accept", number)
    assert taken.status == 0
    assert taken.out.startswith("OAR_JOB_ID=")
    row = connection.execute(
        "SELECT to_char(reservation_start, 'YYYY-MM-DD_HH24:MI:SS'), command, reservation_state"
        " FROM jobs ORDER BY job_id DESC LIMIT 1"
    ).fetchone()
    assert row == (start, "date -u", "Scheduled")
    again = answered("--accept", number)
    assert (again.status, "accepted as job" in again.err) == (1, True)
    assert datetime.fromisoformat(end.replace("_", " ")) - datetime.fromisoformat(start.replace("_", " ")) == timedelta(
        hours=1
    )


def test_an_offer_is_taken_where_others_move_for_the_question_as_it_was_asked(
    answered: Submitter, connection: Connection
) -> None:
    """In a window of just the offered start the new reservation would come after the movable one, and be refused."""
    one, two, four, eight, nine = (in_hours(hours) for hours in (1, 2, 4, 8, 9))
    first = answered.job_id("-r", one, "-l", ALL, "date")
    answered.job_id("-r", two, "-l", ALL, "date")
    movable = str(answered.job_id("-r", one, "--until", four, "-l", ALL, "date"))
    window(answered, str(first), "--from", eight, "--until", nine)
    refused = answered("-r", two, "-l", ALL, "date")
    assert [phi for *_, phi in offers(refused.out)] == ["1.00", "1.00"]
    number, start, *_ = max(offers(refused.out), key=lambda offer: offer[1])
    assert window(answered, movable)["start"] == start
    taken = answered("--accept", number)
    assert (taken.status, "--> OK" in taken.out) == (0, True), taken
    job = taken.out.split("OAR_JOB_ID=")[1].split()[0]
    assert window(answered, job)["start"] == start
    assert window(answered, job)["ready"] == start
    assert window(answered, movable)["start"] == one.replace(" ", "_")


def test_an_offer_of_another_window_is_taken_where_others_move_for_it(answered: Submitter) -> None:
    one, two, three, four, eight, nine = (in_hours(hours) for hours in (1, 2, 3, 4, 8, 9))
    first = answered.job_id("-r", one, "-l", ALL, "date")
    answered.job_id("-r", two, "-l", ALL, "date")
    movable = str(answered.job_id("-r", one, "--until", four, "-l", ALL, "date"))
    changing = str(answered.job_id("-r", in_hours(12), "--slack", "1h", "-l", ALL, "date"))
    window(answered, str(first), "--from", eight, "--until", nine)
    refused = answered(changing, "--from", two, "--until", three, command="oarwindow")
    number, start, *_ = max(offers(refused.out), key=lambda offer: offer[1])
    assert window(answered, movable)["start"] == start
    assert answered("--accept", number).status == 0
    found = window(answered, changing)
    assert (found["start"], found["ready"]) == (start, start)
    assert window(answered, movable)["start"] == one.replace(" ", "_")


def test_an_offer_that_is_gone_is_answered_with_new_ones(answered: Submitter, connection: Connection) -> None:
    begin = in_hours(2)
    answered.job_id("-r", begin, "-l", ALL, "date")
    refused = answered("-r", begin, "--slack", "50%", "-l", ALL, "date")
    number, start, *_ = offers(refused.out)[0]
    answered.job_id("-r", start.replace("_", " "), "-l", ALL, "date")
    again = answered("--accept", number)
    assert (again.status, "--> KO" in again.out, len(offers(again.out)) > 0) == (3, True, True), again
    assert start not in [found for _, found, *_ in offers(again.out)]
    asked = "SELECT count(*), count(DISTINCT (ready, deadline)), count(take) FROM reservation_windows"
    assert connection.execute(asked).fetchone() == (2, 1, 1)


def test_an_offer_to_one_that_was_to_begin_at_once_is_taken_later(
    oarsub: Submitter, connection: Connection, dsn: str
) -> None:
    oarsub.job_id("--no-hint", "-l", "/nodes=3,walltime=1:0:0", "date")
    run_pass(connection)
    with passes(dsn):
        refused = oarsub("-r", "now", "-l", "/nodes=3,walltime=0:0:1", "date")
        number, start, *_ = offers(refused.out)[-1]
        connection.execute("SELECT pg_sleep(1.1)")
        taken = oarsub("--accept", number)
    assert (refused.status, taken.status) == (3, 0), taken
    row = connection.execute(
        "SELECT to_char(reservation_start, 'YYYY-MM-DD_HH24:MI:SS') FROM jobs ORDER BY job_id DESC LIMIT 1"
    ).fetchone()
    assert row == (start,)


def test_who_asked_for_a_key_has_one_with_an_offer_too(
    answered: Submitter, connection: Connection, tmp_path: Path
) -> None:
    begin = in_hours(2)
    answered.job_id("-r", begin, "-l", ALL, "date")
    exported = str(tmp_path / "key.%jobid%")
    refused = answered("-k", "-e", exported, "-r", begin, "-l", ALL, "date")
    (number, *_), *_ = offers(refused.out)
    taken = answered("--accept", number)
    assert taken.status == 0, taken
    job = int(re.findall(r"OAR_JOB_ID=(\d+)", taken.out)[0])
    assert connection.execute("SELECT count(*) FROM job_keys WHERE job_id = %s", (job,)).fetchone() == (1,)
    assert (tmp_path / f"key.{job}").is_file()


def window(oarsub: Submitter, *arguments: str) -> dict[str, str]:
    """Return what ``oarwindow`` prints, by key."""
    result = oarsub(*arguments, command="oarwindow")
    assert (result.status, result.err) == (0, ""), result
    job, *values = result.out.split()
    return dict(value.split("=", 1) for value in values) | {"job": job}


def test_a_window_is_widened_narrowed_and_fixed(answered: Submitter) -> None:
    begin, end = in_hours(2), in_hours(6)
    job = str(answered.job_id("-r", begin, "--until", end, "-l", ALL, "date"))
    first = window(answered, job)
    assert first == {
        "job": job,
        "ready": begin.replace(" ", "_"),
        "deadline": end.replace(" ", "_"),
        "start": begin.replace(" ", "_"),
        "state": "movable",
    }
    later = in_hours(8)
    assert window(answered, job, "--until", later)["deadline"] == later.replace(" ", "_")
    at = in_hours(5)
    moved = window(answered, job, "--from", at)
    assert (moved["ready"], moved["start"]) == (at.replace(" ", "_"), at.replace(" ", "_"))
    assert window(answered, job, "--fix")["state"] == "fixed"


def test_one_that_begins_soon_counts_as_fixed(answered: Submitter) -> None:
    soon, later = in_hours(600 / 3600 - 0.01), in_hours(3)
    job = str(answered.job_id("-r", soon, "--until", in_hours(2), "-l", ALL, "date"))
    other = str(answered.job_id("-r", later, "--until", in_hours(6), "-l", ALL, "date"))
    assert [window(answered, one)["state"] for one in (job, other)] == ["fixed", "movable"]
    for one, state in ((job, "fixed"), (other, "movable")):
        found = json.loads(answered("-J", "-j", one, command="oarstat").out)[one]["window"]["state"]
        assert found == state
    assert answered("-r", soon, "-l", ALL, "date").status == 3
    assert window(answered, job)["start"] == soon.replace(" ", "_")


def test_a_window_that_cannot_be_had_changes_nothing(answered: Submitter) -> None:
    begin = in_hours(2)
    job = str(answered.job_id("-r", begin, "--slack", "1h", "-l", ALL, "date"))
    other = in_hours(6)
    answered.job_id("-r", other, "-l", ALL, "date")
    before = window(answered, job)
    refused = answered(job, "--from", other, "--until", in_hours(7.1), command="oarwindow")
    assert refused.status == 3
    assert [one[3] for one in offers(refused.out)] == ["0.90", "1.00"]
    assert window(answered, job) == before


def test_an_offer_to_a_reservation_that_stands_moves_it_and_makes_no_other(
    answered: Submitter, connection: Connection
) -> None:
    begin, other = in_hours(2), in_hours(6)
    job = answered.job_id("-r", begin, "--slack", "1h", "-l", ALL, "date")
    answered.job_id("-r", other, "-l", ALL, "date")
    refused = answered(str(job), "--from", other, "--until", in_hours(7.1), command="oarwindow")
    (number, start, *_), *_ = offers(refused.out)
    taken = answered("--accept", number)
    assert taken.status == 0, taken
    assert (f"OAR_JOB_ID={job}\n" in taken.out, "--> OK" in taken.out) == (True, True)
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (2,)
    assert window(answered, str(job))["start"] == start
    again = answered("--accept", number)
    assert (again.status, f"was accepted as job {job}" in again.err) == (1, True)


def test_an_offer_that_is_refused_can_be_taken_again(answered: Submitter) -> None:
    job = str(answered.job_id("-r", in_hours(2), "--slack", "1h", "-l", ALL, "date"))
    other = in_hours(6)
    answered.job_id("-r", other, "-l", ALL, "date")
    refused = answered(job, "--from", other, "--until", in_hours(7.1), command="oarwindow")
    (number, start, *_), *_ = offers(refused.out)
    answered.job_id("-r", start.replace("_", " "), "-l", ALL, "date")
    assert answered("--accept", number).status == 3
    again = answered("--accept", number, "-J")
    assert (again.status, window(answered, job)["state"]) == (3, "movable")
    document = json.loads(again.out)
    (entry,) = document["reservations"]
    assert (document["job_id"], entry["job_id"], entry["accepted"]) == (int(job), int(job), False)
    assert [sorted(offer) for offer in entry["offers"]] == [["end", "offer_id", "phi", "start"]] * len(entry["offers"])
    assert len(entry["offers"]) > 0


def test_what_is_refused_is_told_as_json_too(answered: Submitter) -> None:
    begin, other, end = in_hours(2), in_hours(6), in_hours(7)
    job = str(answered.job_id("-r", begin, "--slack", "1h", "-l", ALL, "date"))
    answered.job_id("-r", other, "-l", ALL, "date")
    before = json.loads(answered(job, "-J", command="oarwindow").out)
    refused = answered(job, "--from", other, "--until", end, "-J", command="oarwindow")
    assert (refused.status, refused.err.count("\n")) == (3, 1)
    document = json.loads(refused.out)
    found = document.pop("offers")
    assert document == before
    assert [one["end"] - one["start"] for one in found] == [3600, 3600]
    question = answered("-r", other, "-l", ALL, "-J", "date")
    (offer, *_) = json.loads(question.out)["reservations"][0]["offers"]
    answered.job_id("-r", datetime.fromtimestamp(offer["start"]).isoformat(" "), "-l", ALL, "date")
    again = answered("--accept", str(offer["offer_id"]), "-J")
    (entry,) = json.loads(again.out)["reservations"]
    assert (again.status, entry["accepted"], len(entry["offers"]) > 0) == (3, False, True)


def test_a_refused_change_neither_fixes_a_reservation_nor_lets_a_strict_one_move(answered: Submitter) -> None:
    begin, other = in_hours(2), in_hours(6)
    movable = str(answered.job_id("-r", begin, "--slack", "1h", "-l", ALL, "date"))
    strict = str(answered.job_id("-r", other, "-l", ALL, "date"))
    before = [window(answered, movable), window(answered, strict)]
    assert [one["state"] for one in before] == ["movable", "fixed"]
    assert answered(movable, "--from", other, "--until", in_hours(7.1), "--fix", command="oarwindow").status == 3
    answered(movable, "--fix", command="oarwindow")
    assert answered(strict, "--from", begin, "--until", in_hours(3.1), command="oarwindow").status == 3
    assert [window(answered, movable), window(answered, strict)] == [before[0] | {"state": "fixed"}, before[1]]


def test_a_change_that_is_granted_fixes_as_it_was_asked_to(answered: Submitter) -> None:
    job = str(answered.job_id("-r", in_hours(2), "--slack", "1h", "-l", ALL, "date"))
    at = in_hours(5)
    found = window(answered, job, "--from", at, "--until", in_hours(7), "--fix")
    assert (found["start"], found["state"]) == (at.replace(" ", "_"), "fixed")


def test_one_that_may_begin_at_once_has_no_earliest_start(answered: Submitter) -> None:
    answered.job_id("-r", in_hours(0.01), "-l", "/nodes=3,walltime=1:0:0", "date")
    job = answered.job_id("--until", in_hours(5), "-l", "/nodes=3,walltime=1:0:0", "date")
    assert window(answered, str(job))["ready"] == "-"
    record = json.loads(answered("-J", str(job), command="oarwindow").out)
    assert record["ready"] is None
    assert "at once to " in answered("-f", "-j", str(job), command="oarstat").out
    assert window(answered, str(job), "--until", in_hours(6))["ready"] == "-"


def test_a_job_that_ends_while_its_window_is_asked_about_is_told_of(
    oarsub: Submitter, connection: Connection, dsn: str
) -> None:
    with passes(dsn):
        job = oarsub.job_id("-r", in_hours(2), "--slack", "1h", "-l", ALL, "date")
    connection.execute(
        "CREATE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE jobs SET state = 'toError' WHERE job_id = NEW.job_id; RETURN NULL; END $$;"
        "CREATE TRIGGER gone AFTER UPDATE OF asked_deadline ON reservation_windows FOR EACH ROW EXECUTE FUNCTION gone()"
    )
    answer = oarsub(str(job), "--from", in_hours(2.5), "--answer-timeout", "20", command="oarwindow")
    assert (answer.status, "is toError: only an accepted reservation" in answer.err) == (1, True)


def test_a_part_of_a_broker_is_not_its_users_to_move(oarsub: Submitter, connection: Connection, dsn: str) -> None:
    with passes(dsn):
        job = oarsub.job_id("-r", in_hours(2), "-l", ALL, "date")
    connection.execute("SET session_replication_role = replica")
    connection.execute(
        "INSERT INTO door_parts (broker, part, job_id, kind, state, transaction, begin_at, walltime, held_at)"
        " SELECT 'b', 'p', job_id, 'reserved', 'Committed', 't', reservation_start, walltime, now() FROM jobs"
        " WHERE job_id = %s",
        (job,),
    )
    connection.execute("SET session_replication_role = origin")
    for arguments in (("--until", in_hours(9)), ("--from", in_hours(4), "--until", in_hours(9)), ("--fix",)):
        answer = oarsub(str(job), *arguments, "--answer-timeout", "2", command="oarwindow")
        assert (answer.status, answer.err.count("\n"), "broker 'b', which alone" in answer.err) == (1, 1, True)
    assert connection.execute("SELECT count(*) FROM reservation_windows").fetchone() == (0,)


def test_nodes_that_are_away_now_can_be_had_later_in_the_window(answered: Submitter) -> None:
    job = answered.job_id("--until", in_hours(5), "-l", ALL, "date")
    assert window(answered, str(job))["state"] == "movable"


def test_a_dry_run_shows_window_place_and_offers(answered: Submitter) -> None:
    begin = in_hours(2)
    asked = ("--dry-run", "-r", begin, "--until", in_hours(3.5), "-l", ALL, "date")
    free = answered(*asked)
    assert (free.status, "Window: " in free.out, "Instead: " in free.out) == (0, True, False)
    answered.job_id("-r", begin, "-l", ALL, "date")
    refused = answered(*asked)
    assert (refused.status, refused.out.count("Instead: ")) == (3, 2)
    document = json.loads(answered("-J", *asked).out)["reservation"]
    assert [round(one["phi"], 1) for one in document["offers"]] == [0.5, 1.0]
    assert document["window"]["deadline"] - document["window"]["ready"] == 5400


def test_a_dry_run_writes_the_question_that_decide_answers_as_the_cluster(
    answered: Submitter, connection: Connection, tmp_path: Path
) -> None:
    """All take all nodes: names do not bind."""
    begin = in_hours(2)
    first = answered.job_id("-r", begin, "--slack", "3h", "-l", ALL, "date")
    answered.job_id("-r", in_hours(6), "-l", ALL, "date")
    for length in ("1:0:0", "5:0:0"):
        file = tmp_path / f"{length}.json"
        asked = ("-r", begin, "--slack", "30%", "-l", f"/nodes=4,walltime={length}", "date")
        shown = json.loads(answered("--dry-run", "--question", str(file), "-J", *asked).out)
        counted = answer(file.read_text())
        assert counted["accepted"] == shown["reservation"]["accepted"] == (length == "1:0:0")
        assert counted["start"] == shown["start"]
        offers = [one["start"] for one in shown["reservation"].get("offers", ())]
        assert [one["start"] for one in counted["offers"]] == offers
        assert (counted["schedule"][str(first)] > shown["reservation"]["date"]) == counted["accepted"]
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (2,)


def test_what_has_no_question_is_refused_and_nothing_written(oarsub: Submitter, tmp_path: Path) -> None:
    file, reserved = tmp_path / "q.json", ("-r", in_hours(2), "-l", ALL)
    for asked, words in (
        (("--question", str(file), *reserved, "date"), "--question without --dry-run"),
        (("--dry-run", "--question", str(file), "date"), "--question without a reservation"),
        (("--dry-run", "--question", str(file), *reserved, "--array", "2", "date"), "--question of an array"),
        (("--dry-run", "--question", str(file / "q"), *reserved, "date"), "cannot be written: No such file"),
    ):
        found = oarsub(*asked)
        assert (found.status, found.out, found.err.count("\n"), words in found.err) == (2, "", 1, True), found
    assert not file.exists()


def test_the_nearest_start_is_taken_at_once(answered: Submitter, connection: Connection) -> None:
    begin = in_hours(2)
    answered.job_id("-r", begin, "-l", ALL, "date")
    job = answered.job_id("-r", begin, "--until", in_hours(3.5), "--farthest", "0.6", "-l", ALL, "date")
    found = window(answered, str(job))
    assert found["ready"] == found["start"] != begin.replace(" ", "_")
    assert answered("-r", begin, "--farthest", "0.4", "-l", ALL, "date").status == 3
