"""Pages as a browser gets them: who sees what, what is escaped, how lists go on, what actions need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from oarpy.client.platform.tokens import Scope
from oarpy.store.analytics import gpu_uses
from oarpy.store.analytics.gpu_uses import LookedAt
from tests.harness.hand_written import rewrite
from tests.harness.sample_cluster import add_job, add_nodes
from tests.harness.web_client import ANN, BOB, ME, Connection, token, web_client, web_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]

HTML = {"Accept": "text/html"}
SECRETS = ("./hush.sh", "/home/hidden", "quiet.out", "API_KEY=1")


@pytest.fixture
def client(dsn: str) -> Iterator[TestClient]:
    with web_client(web_settings(dsn)) as found:
        yield found


def get(client: TestClient, path: str, who: dict[str, str], **named: Any) -> str:
    answer = client.get(path, headers={**HTML, **who}, **named)
    assert answer.status_code == 200, answer.text
    return answer.text


def add_secret_job(connection: Connection, user: str, state: str = "Running") -> int:
    """Add a job whose user typed all of :data:`SECRETS`."""
    return add_job(
        connection,
        state,
        user=user,
        resources=add_nodes(connection, "n0"),
        request=f"oarsub {SECRETS[3]}",
        command=SECRETS[0],
        launching_directory=SECRETS[1],
        stdout_path=SECRETS[2],
    )


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("state", ["Waiting", "Running", "Terminated"])
def test_what_another_user_typed_is_on_no_page(
    client: TestClient, connection: Connection, scope: Scope, state: str
) -> None:
    job = add_secret_job(connection, ANN, state)
    other = token(connection, BOB, scope)
    now = datetime.now(UTC)
    period = f"begin={int((now - timedelta(days=300)).timestamp())}&end={int(now.timestamp())}"
    paths = [f"/jobs/{job}", f"/jobs/{job}/why", "/jobs", "/jobs?name=hush", "/cluster", "/data/cells", "/gantt"]
    paths += [f"/data/gantt?{period}", "/queues", "/accounting", "/nodes/n0"]
    paths += ["/cluster/week", "/reservations", "/maintenance"]
    for path in paths:
        text = get(client, path, other)
        assert [word for word in SECRETS if word in text] == [], path
    assert client.get(f"/jobs/{job}/output", headers={**HTML, **other}).status_code == 403
    assert client.get("/confirm/delete", params={"job": job}, headers={**HTML, **other}).status_code == 403


@pytest.mark.parametrize(("user", "scope"), [(ANN, Scope.READ), (ME, Scope.ADMIN)])
def test_owner_and_admins_see_what_was_typed(
    client: TestClient, connection: Connection, user: str, scope: Scope
) -> None:
    text = get(client, f"/jobs/{add_secret_job(connection, ANN)}", token(connection, user, scope))
    assert all(word in text for word in SECRETS[:3])


def test_the_output_is_for_its_owner_alone(client: TestClient, connection: Connection) -> None:
    job = add_secret_job(connection, ANN)
    statuses = [
        client.get(f"/jobs/{job}/output", headers={**HTML, **token(connection, user, scope)}).status_code
        for user, scope in ((ANN, Scope.READ), (ME, Scope.ADMIN))
    ]
    assert statuses == [200, 403]
    waits = add_job(connection, "Waiting", user=ANN)
    assert "It has not started." in get(client, f"/jobs/{waits}/output", token(connection, ANN))
    assert "/output" not in get(client, f"/jobs/{job}", token(connection, ME, Scope.ADMIN))


def test_an_admin_without_a_token_for_that_is_a_user_like_others(client: TestClient, connection: Connection) -> None:
    job = add_secret_job(connection, ANN)
    assert SECRETS[0] not in get(client, f"/jobs/{job}", token(connection, ME, Scope.SUBMIT))
    for path in ("/admin", "/admin/rules", "/admin/quotas", "/admin/audit"):
        assert client.get(path, headers={**HTML, **token(connection, ME, Scope.SUBMIT)}).status_code == 403
        assert client.get(path, headers={**HTML, **token(connection, ME, Scope.ADMIN)}).status_code == 200


def test_what_users_write_is_escaped_and_no_foreign_script_runs(client: TestClient, connection: Connection) -> None:
    bad = "<script>alert(1)</script>"
    job = add_job(connection, "Waiting", user=ANN, job_name=bad, command=bad, message=bad, project=bad)
    who = token(connection, ANN)
    for path in (f"/jobs/{job}", "/jobs", f"/jobs?name={bad}", "/login?next=/%22%3E%3Cscript%3E"):
        answer = client.get(path, headers={**HTML, **who})
        assert "<script>" not in answer.text
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy


def test_pages_have_no_script_and_no_style_inside(client: TestClient, connection: Connection) -> None:
    add_nodes(connection, "n1")
    who = token(connection, ME, Scope.ADMIN)
    paths = ["/cluster", "/cluster/week", "/jobs", "/gantt", "/queues", "/accounting", "/nodes/n1", "/reservations"]
    paths += ["/submit"]
    for path in (*paths, "/maintenance", "/admin", "/login", "/docs"):
        text = get(client, path, who)
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|https?://(?!www.w3.org)", text), path


def test_the_page_of_operations_has_all_that_openapi_describes(client: TestClient) -> None:
    text = get(client, "/docs", {})
    described = client.get("/openapi.json").json()["paths"]
    assert len(described) > 30
    assert [path for path in described if path not in text] == []
    assert client.get("/redoc").status_code == 404


def test_a_job_that_is_over_shows_what_it_used(client: TestClient, connection: Connection) -> None:
    cores = add_nodes(connection, "n1", cores=2)
    used = add_job(connection, "Terminated", user=ANN, resources=cores, seconds=1800.0)
    rewrite(connection, "UPDATE jobs SET cpu_seconds = 900, memory_peak = %s WHERE job_id = %s", 3 << 29, used)
    unmeasured = add_job(connection, "Terminated", user=ANN)
    shown, other = (get(client, f"/jobs/{job}", token(connection, BOB)) for job in (used, unmeasured))
    assert "<dd>0:15:00 of 1:00:00 held, 25%</dd><dt>Most memory on a node</dt><dd>1.5G</dd>" in shown
    assert "Efficiency" not in other


def test_a_job_shows_how_busy_its_gpus_are(client: TestClient, connection: Connection) -> None:
    job = add_job(connection, "Running", user=ANN, resources=add_nodes(connection, "n1", cores=1))
    gpu_uses.record(connection, [LookedAt(job, 2, 2, 0.5, 3 << 30, 2 << 30, 8 << 30)], 100.0)
    connection.execute("UPDATE gpu_uses SET seconds = 120, busy_seconds = 30")
    shown = get(client, f"/jobs/{job}", token(connection, BOB))
    assert "<dd>0.5 of 2 now; 0:00:30 of 0:02:00 looked at, 25%</dd>" in shown
    assert "<dt>Most memory on a GPU</dt><dd>2.0G of 8.0G</dd>" in shown


def test_a_job_of_less_than_a_second_on_one_core_says_no_cpu_time(client: TestClient, connection: Connection) -> None:
    job = add_job(connection, "Terminated", user=ANN, resources=add_nodes(connection, "n1", cores=1), seconds=0.4)
    rewrite(connection, "UPDATE jobs SET cpu_seconds = 0.1 WHERE job_id = %s", job)
    shown = get(client, f"/jobs/{job}", token(connection, BOB))
    assert "CPU time" not in shown
    assert "1 resource on" in shown


def test_a_list_goes_on_after_a_key_whatever_comes_in_between(
    client: TestClient, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oarpy.web.pages.jobs.PAGE", 3)
    jobs = [add_job(connection, "Hold", user=ANN) for _ in range(8)]
    who = token(connection, ANN)

    def shown(path: str) -> tuple[list[int], dict[str, str]]:
        text = get(client, path, who)
        found = re.findall(r'<a class="button"(?: rel="\w+")? href="([^"]+)">(\w+)<', text)
        links = {name: address.replace("&amp;", "&") for address, name in found}
        return [int(job) for job in re.findall(r'data-row="(\d+)"', text)], links

    first, links = shown("/jobs?state=Hold")
    assert first == jobs[:-4:-1]
    assert "Newer" not in links
    late = add_job(connection, "Hold", user=ANN)
    second, links = shown(links["Older"])
    assert second == jobs[4:1:-1]
    third, last = shown(links["Older"])
    assert third == jobs[1::-1]
    assert "Older" not in last
    assert shown(last["Newer"])[0] == second
    assert shown("/jobs?state=Hold")[0][0] == late


def rows(text: str) -> dict[int, list[str]]:
    """Return the cells of a list of jobs by job, without their marks."""
    found = re.findall(r'<tr data-row="(\d+)".*?</tr>', text, re.DOTALL)
    parts = re.findall(r'<tr data-row="\d+"(.*?)</tr>', text, re.DOTALL)
    return {
        int(job): [" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in re.findall("<td.*?</td>", part, re.DOTALL)]
        for job, part in zip(found, parts, strict=True)
    }


def test_the_list_says_how_large_each_job_is_and_why_it_waits_or_failed(
    client: TestClient, connection: Connection
) -> None:
    cores = add_nodes(connection, "n1", "n2")
    runs = add_job(connection, "Running", user=ANN, resources=cores[:3], walltime=timedelta(hours=2))
    waits = add_job(connection, "Waiting", user=ANN, message="R=8,W=1:0:0,J=B", walltime=timedelta(minutes=90))
    planned = add_job(connection, "Waiting", user=ANN, message="R=8,W=1:0:0,J=B")
    reason = "word " * 60 + "end"
    connection.execute(
        "INSERT INTO gantt_predictions (job_id, verdict, reason, moldable_id, start_time, end_time, resources)"
        " SELECT %s, 'resources_busy', %s, max(moldable_id), now(), now() + interval '1 hour',"
        " int4multirange(int4range(%s, %s)) FROM moldable_descriptions",
        [planned, reason, cores[1], cores[2] + 1],
    )
    failed = add_job(connection, "Terminated", user=ANN, resources=cores[3:], status=256)
    listed = rows(get(client, "/jobs", token(connection, ANN)))
    size = {job: (cells[6], cells[7], cells[11]) for job, cells in listed.items()}
    assert size[runs] == ("2", "3", "2:00:00")
    assert size[waits] == ("1", "8", "1:30:00")
    assert size[planned] == ("2", "2", "1:00:00")
    assert listed[planned][12] == reason
    assert listed[failed][12] == "exit code 1"


def test_members_of_arrays_are_named(client: TestClient, connection: Connection) -> None:
    first = add_job(connection, "Waiting", user=ANN)
    second = add_job(connection, "Waiting", user=ANN, array_id=first, array_index=2)
    alone = add_job(connection, "Waiting", user=ANN)
    listed = rows(get(client, "/jobs", token(connection, ANN)))
    assert [listed[job][3] for job in (first, second, alone)] == [f"1 of array {first}", f"2 of array {first}", ""]


def test_failures_and_own_jobs_are_a_click_away(client: TestClient, connection: Connection) -> None:
    failed = add_job(connection, "Terminated", user=ANN, status=256)
    broken = add_job(connection, "Error", user=BOB)
    add_job(connection, "Terminated", user=ANN)
    who = token(connection, ANN)
    text = get(client, "/jobs?failed=yes", who)
    assert set(rows(text)) == {failed, broken}
    assert text.count('class="failed"') == 2
    (mine,) = re.findall(r'href="([^"]+)">Mine<', text)
    assert set(rows(get(client, mine.replace("&amp;", "&"), who))) == {failed}


@pytest.mark.parametrize("sort", ["user", "-user", "walltime", "-walltime", "start", "-ran", "job", "name"])
def test_a_sorted_list_goes_on_where_it_stopped(
    client: TestClient, connection: Connection, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    for place in range(7):
        hours = timedelta(hours=1 + place * 3 % 4)
        user = (ANN, BOB)[place % 2]
        if place < 4:
            add_job(connection, "Waiting", user=user, walltime=hours, job_name=f"{place % 3}")
        else:
            add_job(connection, "Terminated", user=user, walltime=hours, seconds=float(place * 5 % 3 + 1))
    who = token(connection, ANN)
    whole = list(rows(get(client, f"/jobs?sort={sort}", who)))
    assert len(whole) == 7
    monkeypatch.setattr("oarpy.web.pages.jobs.PAGE", 3)
    path, seen = f"/jobs?sort={sort}", []
    while True:
        text = get(client, path, who)
        seen.append(list(rows(text)))
        following = re.findall(r'rel="next" href="([^"]+)"', text)
        if not following:
            break
        path = following[0].replace("&amp;", "&")
    assert [job for page in seen for job in page] == whole
    (back,) = re.findall(r'rel="prev" href="([^"]+)"', text)
    assert list(rows(get(client, back.replace("&amp;", "&"), who))) == seen[-2]


@pytest.mark.parametrize(
    "path",
    [
        "/jobs?state=Nothing",
        "/jobs?sort=age",
        "/jobs?failed=no",
        "/jobs?before=x",
        "/jobs?before=99999999999999999999",
        "/jobs?since=never",
        "/jobs?user=%00",
        "/gantt?span=age",
        "/gantt?begin=5&end=4",
        "/accounting?by=age",
        "/accounting?begin=x",
        "/nodes/n1?days=-1",
        "/nodes/n1?days=²",
        "/data/gantt?begin=1&end=9999999999999",
        "/data/gantt",
    ],
)
def test_a_wrong_address_gets_one_line(client: TestClient, connection: Connection, path: str) -> None:
    add_nodes(connection, "n1")
    assert client.get(path, headers={**HTML, **token(connection, ANN)}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/jobs/9999", "/jobs/0", f"/jobs/{2**70}", "/nodes/none", "/nothing", "/jobs/9999/why"]
)
def test_what_is_not_there_is_told_on_a_page(client: TestClient, connection: Connection, path: str) -> None:
    answer = client.get(path, headers={**HTML, **token(connection, ANN)})
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text


def test_whoever_is_not_logged_in_is_asked_to(client: TestClient, connection: Connection) -> None:
    answer = client.get("/jobs?user=ann", headers=HTML, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/jobs%3Fuser%3Dann")
    for foreign in ("//evil.org", "https://evil.org", "/\\evil.org"):
        assert "evil" not in client.get("/login", params={"next": foreign}, headers=HTML).text


def test_an_action_needs_our_page_its_word_and_a_yes(client: TestClient, connection: Connection) -> None:
    job = add_job(connection, "Waiting", user=ANN)
    secret = token(connection, ANN)["Authorization"].removeprefix("Bearer ")
    client.post("/login", data={"token": secret})
    text = client.get("/confirm/hold", params={"job": job}, headers=HTML).text
    (word,) = set(re.findall(r'name="csrf_token" value="(\w+)"', text))
    whole = {"job": str(job), "confirmed": "yes", "csrf_token": word}

    def state() -> str:
        ((found,),) = connection.execute("SELECT state FROM jobs WHERE job_id = %s", [job]).fetchall()
        return str(found)

    for wrong, headers in (
        ({**whole, "csrf_token": "0" * 64}, {}),
        ({**whole, "confirmed": ""}, {}),
        (whole, {"Origin": "https://evil.org"}),
        (whole, {"Sec-Fetch-Site": "cross-site"}),
    ):
        answer = client.post("/actions/hold", data=wrong, headers={**HTML, **headers}, follow_redirects=False)
        assert answer.status_code in (400, 403)
        assert state() == "Waiting"
    answer = client.post("/actions/hold", data=whole, headers=HTML, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
    assert state() == "Hold"
    assert f"Job {job} is held." in client.get(f"/jobs/{job}", headers=HTML).text
    row = connection.execute("SELECT user_name, status FROM web_actions ORDER BY action_id DESC LIMIT 1").fetchone()
    assert row == (ANN, 303)


def test_a_token_to_read_does_nothing(client: TestClient, connection: Connection) -> None:
    job = add_job(connection, "Waiting", user=ANN)
    who = {**HTML, **token(connection, ANN, Scope.READ)}
    assert client.post("/actions/hold", data={"job": str(job), "confirmed": "yes"}, headers=who).status_code == 403
    node = {"node": "n1", "confirmed": "yes"}
    add_nodes(connection, "n1")
    for action in ("drain", "absent", "alive", "undrain"):
        who = {**HTML, **token(connection, ANN, Scope.SUBMIT)}
        assert client.post(f"/actions/{action}", data=node, headers=who).status_code == 403


def test_quotas_that_are_shown_can_be_loaded_again(client: TestClient, connection: Connection) -> None:
    who = {**HTML, **token(connection, ME, Scope.ADMIN)}
    text = '{"quotas": {"*,*,*,/": [64, -1, -1]}}'
    asked = client.post("/confirm/load-quotas", data={"text": text}, headers=who).text
    assert "*,*,*,/" in asked
    done = client.post(
        "/actions/load-quotas", data={"text": text, "confirmed": "yes"}, headers=who, follow_redirects=False
    )
    assert done.status_code == 303
    assert "64" in client.get("/admin/quotas", headers=who).text
    assert client.post("/confirm/load-quotas", data={"text": "no JSON"}, headers=who).status_code == 400


def test_a_waiting_job_shows_the_interval_that_it_was_told(client: TestClient, connection: Connection) -> None:
    add_nodes(connection, "n1")
    job = add_job(connection, "Waiting", user=ANN)
    connection.execute(
        "INSERT INTO gantt_predictions (job_id, verdict, moldable_id, start_time, end_time)"
        " SELECT %s, 'resources_busy', max(moldable_id), now() + interval '1 hour', now() + interval '2 hours'"
        " FROM moldable_descriptions",
        [job],
    )
    connection.execute(
        "INSERT INTO first_predictions VALUES (%s, now(), now() + interval '1 hour', now() + interval '20 minutes',"
        " now() + interval '50 minutes', 300)",
        [job],
    )
    text = get(client, f"/jobs/{job}", token(connection, ANN))
    ((earliest, latest),) = connection.execute(
        "SELECT extract(epoch FROM earliest_start)::int, extract(epoch FROM latest_start)::int FROM first_predictions"
    ).fetchall()
    # as the browser writes them, in the reader's time zone
    assert re.search(
        rf'data-at="{earliest - 1}|{earliest}".*to.*data-at="{latest - 1}|{latest}".*of 300 past starts', text
    )
    ((planned,),) = connection.execute("SELECT extract(epoch FROM start_time)::int FROM gantt_predictions").fetchall()
    assert re.search(f'predicted</span> <time[^>]* data-at="({planned}|{planned - 1})" data-long', text)


def test_dates_within_sentences_are_in_the_readers_time_too(
    client: TestClient, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_nodes(connection, "n1")
    job = add_job(connection, "Waiting", user=ANN)
    connection.execute(
        "INSERT INTO gantt_predictions (job_id, verdict, reason) VALUES (%s, 'resources_busy', %s)",
        [job, "<busy> until 2031-05-01 12:00:00"],
    )
    who = token(connection, ANN)
    exact = datetime(2031, 5, 1, 12).astimezone().timestamp()  # the server's
    for path in (f"/jobs/{job}", "/jobs"):
        text = get(client, path, who)
        assert "&lt;busy&gt; until <time" in text
        assert f'data-at="{exact:.0f}" data-exact>2031-05-01 12:00:00</time>' in text
    # the same as facts, whose instants nobody has to look for
    connection.execute(
        "UPDATE gantt_predictions SET reason_data = %s",
        ['{"kind": "outage", "outages": [{"what": "<busy>", "end": 1900000000}], "until": 1900000060}'],
    )
    for path in (f"/jobs/{job}", "/jobs"):
        text = get(client, path, who)
        assert re.search(
            r'&lt;busy&gt; until <time [^>]*data-at="1900000000" data-exact>[-0-9: ]+</time>, so that it waits until'
            r' <time [^>]*data-at="1900000060" data-exact>[-0-9: ]+</time>',
            text,
        )


def test_karma_is_said_to_rank_where_it_does(client: TestClient, connection: Connection) -> None:
    who = token(connection, ANN)
    assert "lowest karma" not in get(client, "/queues", who)
    connection.execute("UPDATE queues SET policy = 'fairshare' WHERE queue_name = 'default'")
    assert "who has the lowest karma is served first in default<" in get(client, "/queues", who)


def test_nodes_that_are_drained_under_a_job_need_a_look(client: TestClient, connection: Connection) -> None:
    held = add_nodes(connection, "n1", cores=1)
    add_nodes(connection, "n2")
    add_job(connection, "Running", user=ANN, resources=held)
    who = {**HTML, **token(connection, ME, Scope.ADMIN)}
    drain = {"node": "n1", "confirmed": "yes", "reason": "its fan"}
    assert client.post("/actions/drain", data=drain, headers=who, follow_redirects=False).status_code == 303
    text = client.get("/cluster", headers=who).text
    assert "drained, its jobs go on" in text
    assert "its fan" in text
    # busy all the same, and told apart in the drawing
    assert ">1 <small>of 3 cores" in text
    assert [node[1] for node in client.get("/data/cells", headers=who).json()["nodes"]] == ["h", "ff"]


def test_the_gantt_tells_drained_nodes_from_those_that_were_down(client: TestClient, connection: Connection) -> None:
    add_nodes(connection, "n1", "n2")
    connection.execute("UPDATE resources SET drain = true WHERE network_address = 'n1'")
    for state in ("Suspected", "Alive"):
        connection.execute("UPDATE resources SET state = %s WHERE network_address = 'n1'", [state])
    connection.execute("UPDATE resources SET state = 'Absent' WHERE network_address = 'n2'")
    connection.execute("UPDATE nodes SET away_reason = 'its fan' WHERE network_address = 'n1'")
    now = int(datetime.now(UTC).timestamp())
    path = f"/data/gantt?begin={now - 3600}&end={now + 3600}"
    found = client.get(path, headers=token(connection, ANN)).json()["outages"]
    states_ = {(first, state): (end, reason) for first, count, begin, end, state, reason in found}
    assert set(states_) == {(0, "drained"), (0, "Suspected"), (2, "Absent")}
    assert states_[0, "drained"] == (7200, "its fan")


def test_a_confirmation_keeps_the_reason_and_a_form_that_is_wrong_what_was_typed(
    client: TestClient, connection: Connection
) -> None:
    add_nodes(connection, "n1")
    who = {**HTML, **token(connection, ME, Scope.ADMIN)}
    asked = {"node": "n1", "reason": 'a "new" fan'}
    assert 'name="reason" maxlength="500" value="a &#34;new&#34; fan"' in get(
        client, "/confirm/drain", who, params=asked
    )
    answer = client.get("/confirm/drain", params={**asked, "node": "n9"}, headers=who)
    assert answer.status_code == 404
    assert "There is no node n9." in answer.text
    assert 'name="node" value="n9"' in answer.text
    assert "a &#34;new&#34; fan" in answer.text
    long = {**asked, "reason": "x" * 501, "confirmed": "yes"}
    answer = client.post("/actions/drain", data=long, headers=who, follow_redirects=False)
    assert answer.status_code == 400
    assert "--reason has 501 characters" in answer.text
    assert "x" * 501 in answer.text
    assert "Drain n1?" in answer.text


def test_quotas_that_cannot_be_read_can_be_mended(client: TestClient, connection: Connection) -> None:
    who = {**HTML, **token(connection, ME, Scope.ADMIN)}
    answer = client.post("/confirm/load-quotas", data={"text": '{"quotas": "<none>"'}, headers=who)
    assert answer.status_code == 400
    assert "{&#34;quotas&#34;: &#34;&lt;none&gt;&#34;</textarea>" in answer.text


def test_jobs_that_would_end_are_listed_before(client: TestClient, connection: Connection) -> None:
    cores = add_nodes(connection, "n1", "n2")
    outer = add_job(connection, "Running", user=ANN, resources=cores[:1], types=["container"], job_name="hull")
    inner = add_job(connection, "Running", user=BOB, resources=cores[2:3], types=[f"inner={outer}"])
    other = add_job(connection, "Running", user=BOB, resources=cores[3:])
    who = token(connection, ME, Scope.ADMIN)
    for path in ("/confirm/absent?node=n1", f"/confirm/delete?job={outer}"):
        text = get(client, path, who)
        assert "2 jobs end by this" in text
        assert [f'/jobs/{job}">' in text for job in (outer, inner, other)] == [True, True, False]
    assert "this:" not in get(client, "/confirm/drain?node=n1", who)
    states_ = connection.execute("SELECT DISTINCT state FROM jobs").fetchall()
    assert states_ == [("Running",)]


def test_the_audit_says_who_did_what_to_what(client: TestClient, connection: Connection) -> None:
    add_nodes(connection, "n1")
    job = add_job(connection, "Waiting", user=ANN)
    admin, ann = token(connection, ME, Scope.ADMIN), token(connection, ANN)
    client.post("/login", data={"token": "wrong"}, headers=HTML)
    client.post(f"/api/v1/jobs/{job}/hold", headers=ann)
    client.delete(f"/oarapi/jobs/{job + 1}.json", headers=ann)
    client.post("/confirm/drain", data={"node": "n1"}, headers={**HTML, **admin})
    drain = {"node": "n1", "reason": "its fan", "confirmed": "yes", "csrf_token": "c0ffee"}
    client.post("/actions/drain", data=drain, headers={**HTML, **admin})

    def told(path: str) -> list[list[str]]:
        rows_ = re.findall("<tr.*?</tr>", get(client, path, admin), re.DOTALL)[1:]
        return [
            [" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in re.findall("<td.*?</td>", row)] for row in rows_
        ]

    seen = [[row[1], row[2], row[3], row[5]] for row in told("/admin/audit")]
    assert seen == [
        [f"{ME} by a token", "Drain n1", "reason: its fan", "done 303"],
        [f"{ANN} by a token", f"Delete job {job + 1}", "", "refused 404"],
        [f"{ANN} by a token", f"Hold job {job}", "", "done 200"],
    ]
    assert [row[2] for row in told("/admin/audit?show=logins")] == ["Log in"]
    assert len(told("/admin/audit?show=all")) == 5
    assert {row[1] for row in told(f"/admin/audit?user={ANN}")} == {f"{ANN} by a token"}
    assert "c0ffee" not in get(client, "/admin/audit?show=all", admin)


def test_the_last_week_is_the_mean_of_each_hour(client: TestClient, connection: Connection) -> None:
    cores = add_nodes(connection, "n1", cores=4)
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    run = add_job(connection, "Terminated", user=ANN, resources=cores[:2], started=now - 2 * hour)
    rewrite(connection, "UPDATE jobs SET ended_at = now() - interval '30 minutes' WHERE job_id = %s", run)
    rewrite(
        connection,
        "UPDATE assigned_resources SET during = tstzmultirange(tstzrange(now() - interval '150 minutes',"
        " now() - interval '30 minutes')) WHERE job_id = %s",
        run,
    )
    waits = add_job(connection, "Waiting", user=ANN)
    for job, since in ((waits, 150), (run, 100000)):
        rewrite(
            connection,
            "UPDATE job_state_logs SET during = tstzrange(now() - %s * interval '1 minute', upper(during))"
            " WHERE state = 'Waiting' AND job_id = %s",
            since,
            job,
        )
    text = get(client, "/cluster/week", token(connection, BOB))
    busy, waiting = (re.findall(r">([\d.]+) (?:cores|jobs)</title>", part) for part in text.split("Waiting jobs", 1))
    assert [float(value) for value in busy] == pytest.approx([1, 2, 1], abs=0.1)
    assert [float(value) for value in waiting[-3:]] == pytest.approx([1.5, 2, 2], abs=0.1)


def test_reservations_are_listed_by_date(client: TestClient, connection: Connection) -> None:
    cores = add_nodes(connection, "n1", "n2")
    later, sooner = (
        add_job(
            connection,
            "Waiting",
            user=ANN,
            job_name=name,
            reservation_start=datetime.now(UTC) + timedelta(days=days),
            reservation_state=state,
            walltime=timedelta(hours=3),
        )
        for name, days, state in (("late", 2, "toSchedule"), ("soon", 1, "Scheduled"))
    )
    add_job(connection, "Waiting", user=ANN)
    connection.execute(
        "INSERT INTO reserved_resources (job_id, resource_id, during)"
        " SELECT %s, id, tstzrange(now() + interval '1 day', now() + interval '27 hours') FROM unnest(%s::int[]) AS id",
        [sooner, cores[1:3]],
    )
    listed = rows(get(client, "/reservations", token(connection, BOB)))
    assert list(listed) == [sooner, later]
    assert listed[sooner][1] == "accepted"
    assert listed[sooner][4:] == ["3:00:00", ANN, "soon", "default", "2", "n1 n2"]
    assert listed[later][1] == "waits for its answer"
    assert listed[later][9:] == [""]


def test_maintenance_is_planned_and_cancelled_by_admins(client: TestClient, connection: Connection) -> None:
    held = add_nodes(connection, "n1", "n2")
    job = add_job(connection, "Running", user=ANN, resources=held[:1], started=datetime.now(UTC))
    admin, ann = ({**HTML, **token(connection, ME, Scope.ADMIN)}, token(connection, ANN))
    plan = {"node": "n[1-2]", "period": "now..+2h", "reason": "new fans"}
    asked = get(client, "/confirm/plan-window", admin, params=plan)
    assert f"jobs {job}" in asked
    assert asked.count("data-exact>") == 2  # its dates, in the reader's time zone
    done = client.post("/actions/plan-window", data={**plan, "confirmed": "yes"}, headers=admin, follow_redirects=False)
    assert done.status_code == 303
    text = get(client, "/maintenance", ann)
    assert "new fans" in text
    assert "under way" in text
    assert "cancel-window" not in text
    (window,) = re.findall(r'name="window" value="(\d+)"', get(client, "/maintenance", admin))
    assert "new fans" in get(client, "/confirm/cancel-window", admin, params={"window": window})
    client.post("/actions/cancel-window", data={"window": window, "confirmed": "yes"}, headers=admin)
    assert "No maintenance is planned." in get(client, "/maintenance", ann)
    for action, fields in (("plan-window", plan), ("cancel-window", {"window": window})):
        assert client.get(f"/confirm/{action}", params=fields, headers={**HTML, **ann}).status_code == 403
    wrong = client.get("/confirm/plan-window", params={**plan, "period": "later"}, headers=admin)
    assert wrong.status_code == 400
    assert 'value="later"' in wrong.text


SCRIPT = "#!/bin/sh\r\n#OAR -l /core=1,walltime=0:30:0\r\necho 'done' </dev/null\r\n"


def test_the_form_says_what_would_come_of_it_and_writes_nothing_down(
    client: TestClient, connection: Connection
) -> None:
    add_nodes(connection, "n1")
    who = {**HTML, **token(connection, ANN)}
    asked = {"script": SCRIPT, "walltime": "", "directory": "/tmp"}
    text = client.post("/submit/answer", data=asked, headers=who).text
    assert "core=1,walltime=0:30:0 in queue default" in text
    assert re.search(r"<dt>When</dt><dd><time [^>]*data-exact>", text)
    other = {**asked, "resources": "/core=2", "walltime": "1:0:0", "project": "p1"}
    over = client.post("/submit/answer", data=other, headers=who).text
    assert "of 2) in queue default for project p1" in over  # the resources of both are alternatives
    wrong = client.post("/submit/answer", data={**asked, "resources": "/core=many"}, headers=who)
    assert 'role="alert"' in wrong.text
    assert "many" in wrong.text
    assert 'role="alert"' in client.post("/submit/answer", data={}, headers=who).text
    assert connection.execute("SELECT count(*) FROM jobs").fetchall() == [(0,)]
    assert connection.execute("SELECT count(*) FROM web_actions").fetchall() == [(0,)]


def test_a_script_that_is_typed_becomes_a_job(client: TestClient, connection: Connection) -> None:
    add_nodes(connection, "n1")
    who = {**HTML, **token(connection, ANN)}
    asked = {"script": SCRIPT, "name": "typed", "types": "besteffort idempotent", "directory": "/tmp"}
    done = client.post("/submit", data=asked, headers=who, follow_redirects=False)
    ((job, name, types, directory, command),) = connection.execute(
        "SELECT job_id, job_name, types, launching_directory, command FROM jobs"
    ).fetchall()
    assert (done.status_code, done.headers["location"]) == (303, f"/jobs/{job}")
    assert (name, set(types), directory) == ("typed", {"besteffort", "idempotent"}, "/tmp")
    assert "echo" in command
    assert "\r" not in command
    ((detail,),) = connection.execute("SELECT detail FROM web_actions").fetchall()
    assert "typed" in detail
    assert "echo" not in detail
    array = client.post("/submit", data={**asked, "array_size": "3"}, headers=who, follow_redirects=False)
    assert array.headers["location"] == f"/jobs?array={job + 1}"


def test_a_form_that_is_refused_comes_back_as_it_was(client: TestClient, connection: Connection) -> None:
    add_nodes(connection, "n1")
    who = {**HTML, **token(connection, ANN)}
    asked = {"script": SCRIPT + "# <end>", "queue": "none", "resources": "/core=1", "directory": "/tmp"}
    refused = client.post("/submit", data=asked, headers=who)
    assert refused.status_code >= 400
    assert "none" in refused.text
    assert "# &lt;end&gt;</textarea>" in refused.text
    assert 'name="resources" value="/core=1"' in refused.text
    assert connection.execute("SELECT count(*) FROM jobs").fetchall() == [(0,)]
    reader = {**HTML, **token(connection, ANN, Scope.READ)}
    assert client.get("/submit", headers=reader).status_code == 403
    assert client.post("/submit", data=asked, headers=reader).status_code == 403
    foreign = {**who, "Sec-Fetch-Site": "cross-site"}
    assert client.post("/submit", data=asked, headers=foreign).status_code == 403
