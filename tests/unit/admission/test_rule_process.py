"""A rule harms nothing but itself: its process has bounds, and is replaced when a rule breaks them."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from oarpy.admission.rules.execution import RuleLimits
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import RefusedByRule, Rule
from oarpy.admission.rules.site import FixedSite
from oarpy.model.submission import Submission

ESCAPED = """
functions = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]
system = functions.__init__.__globals__
"""
"""A rule that wants out gets at the module ``os``; the names of a rule are no wall, its process is one."""


def refusal(text: str, limits: RuleLimits) -> str:
    rules = RuleSet([Rule("before", "job.queue = 'x'", 1), Rule("mine", text, 2)])
    with pytest.raises(RefusedByRule) as caught:
        rules.run(Submission("ann"), FixedSite(), limits=limits)
    assert caught.value.rule == "mine"
    return caught.value.message


def assert_others_go_on() -> None:
    submission, trace = RuleSet([Rule("next", "job.name = 'n'; note(site.now().year)")]).run(
        Submission("ann"), FixedSite()
    )
    assert (submission.name, trace.notes) == ("n", ["2026"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 'x' * (300 * 2 ** 20)", "at line 1: it took more than 64 MiB of memory"),
        ("x = []\nwhile True: x.append('x' * (2 ** 20 + len(x)))", "at line 2: it took more than 64 MiB of memory"),
        (ESCAPED + "system['_exit'](0)", "its process ended"),
        (ESCAPED + "system['kill'](system['getpid'](), 11)", "at line 4: PermissionError"),
        (ESCAPED + "system['fork']()", "at line 4: (PermissionError|BlockingIOError)"),
        (ESCAPED + "system['write'](system['open']('/tmp/rule', 65, 0o600), b'x')", "failed"),
    ],
)
def test_a_rule_that_goes_too_far_is_refused_by_name(text: str, reason: str) -> None:
    assert_refused(text, reason, RuleLimits(seconds=60, memory=64))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("while True: pass", "at line 1: it ran longer than 0.2 s"),
        ("while True:\n    try:\n        len([])\n    except:\n        pass", r"its process ended|ran longer"),
        ("7 ** 7 ** 9 ** 2", "it ran longer than 0.2 s"),
    ],
)
def test_a_rule_that_takes_too_long_is_refused_by_name(text: str, reason: str) -> None:
    assert_refused(text, reason, RuleLimits(seconds=0.2, memory=64))


def assert_refused(text: str, reason: str, limits: RuleLimits) -> None:
    message = refusal(text, limits)
    assert message.startswith("admission rule mine failed")
    assert re.search(reason, message)
    assert_others_go_on()


def as_nobody(action: Callable[[], None]) -> None:
    """Run ``action`` in a process without rights, as oarpy's own account has none."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            action()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def assert_no_rights() -> None:
    for attempt in (
        "system['open']('/etc/passwd', 0)",
        "system['kill'](system['getppid'](), 0)",
        "system['sys'].modules['socket'].socket()",
        "system['sys'].modules['resource'].prlimit(system['getppid'](), 0, (1, 1))",
    ):
        assert re.search("PermissionError|ProcessLookupError", refusal(ESCAPED + attempt, RuleLimits()))


def test_a_rule_opens_nothing_and_reaches_nobody_whoever_submits() -> None:
    assert_no_rights()
    as_nobody(assert_no_rights)


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root has jobs of one user only")
def test_a_job_of_nobody_cannot_end_the_rules_of_others() -> None:
    class Attacked(FixedSite, frozen=True):
        def groups(self, user: str) -> tuple[str, ...]:
            rules = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()[-1]

            def attack() -> None:
                with pytest.raises(PermissionError):
                    os.kill(int(rules), signal.SIGKILL)

            as_nobody(attack)
            return ("spared",)

    _, trace = RuleSet([Rule("mine", "note(site.groups('x'))")]).run(Submission("ann"), Attacked())
    assert trace.notes == ["('spared',)"]


def test_a_rule_ends_with_the_process_that_submits() -> None:
    """It computes where no signal of Python reaches it."""
    answer, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answer)

        class Telling(FixedSite, frozen=True):
            def groups(self, user: str) -> tuple[str, ...]:
                children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
                os.write(told, children.encode())
                return ()

        RuleSet([Rule("mine", "site.groups('x')\nsum(range(10 ** 15))")]).run(
            Submission("ann"), Telling(), limits=RuleLimits(seconds=600)
        )
        os._exit(0)
    os.close(told)
    rule = int(os.read(answer, 20))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    ended = select.poll()
    ended.register(os.pidfd_open(rule), select.POLLIN)
    assert ended.poll(10_000)


def test_a_rule_has_dates_of_any_zone() -> None:
    class Site(FixedSite, frozen=True):
        def groups(self, user: str) -> tuple[str, ...]:
            return cast("tuple[str, ...]", (datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo")),))

    reservation = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))
    rule = Rule("mine", "note(job.reservation.isoformat()); note(site.groups('x')[0].isoformat())")
    _, trace = RuleSet([rule]).run(Submission("ann", reservation=reservation), Site())
    assert trace.notes == ["2026-07-01T12:00:00+02:00", "2026-07-01T12:00:00+09:00"]


def test_a_rule_is_told_that_it_took_too_long_when_its_question_did() -> None:
    class Slow(FixedSite, frozen=True):
        def groups(self, user: str) -> tuple[str, ...]:
            threading.Event().wait(1)
            return ()

    with pytest.raises(RefusedByRule, match=r"at line 2: it ran longer than 0\.2 s"):
        RuleSet([Rule("mine", "x = 1\nsite.groups('x')")]).run(
            Submission("ann"), Slow(), limits=RuleLimits(seconds=0.2)
        )
    assert_others_go_on()


@pytest.mark.long
def test_a_rule_cannot_put_off_its_end_by_asking() -> None:
    text = ESCAPED + "signals = system['sys'].modules['signal']\nsignals.signal(14, signals.SIG_IGN)\n"
    assert "it ran longer than 0.2 s" in refusal(text + "while True: site.queue('x')", RuleLimits(seconds=0.2))
    assert_others_go_on()


def test_what_the_request_may_take_of_the_processor_does_not_end_later_rules() -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (2, resource.RLIM_INFINITY))
        rules = RuleSet([Rule("mine", "sum(range(2 * 10 ** 7))")])
        for _ in range(8):
            rules.run(Submission("ann"), FixedSite(), limits=RuleLimits(seconds=60))

    as_nobody(limited)


def test_a_rule_finds_no_file_of_the_process_that_submits(tmp_path: Path) -> None:
    with (tmp_path / "held").open("wb") as held:
        text = ESCAPED + f"system['write']({held.fileno()}, b'x')"
        assert "OSError: [Errno 9]" in refusal(text, RuleLimits())


def test_the_process_serves_one_run_after_the_other() -> None:
    rules = RuleSet([Rule("mine", "note(site.count_jobs())")])
    notes = {tuple(rules.run(Submission("ann"), FixedSite())[1].notes) for _ in range(50)}
    assert notes == {("0",)}


def test_a_process_forked_while_rules_are_warm_has_its_own() -> None:
    assert_others_go_on()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert_others_go_on()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert_others_go_on()


def test_rules_run_from_any_thread() -> None:
    failures: list[BaseException] = []

    def submit() -> None:
        try:
            assert_others_go_on()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_many_submissions_pass_one_after_the_other_whatever_becomes_of_each() -> None:
    """One that ends the process does not keep the next ones from running, and each asks with those before counted."""
    text = "if job.name == 'bad': refuse('no')\nif job.name == 'late':\n  while True: pass\nnote(site.count_jobs())"
    found: list[object] = []

    class Counting(FixedSite, frozen=True):
        def count_jobs(self, **_: object) -> int:
            return len(found)

    asked = [Submission("ann", name=name) for name in ("a", "bad", "late", "b")]
    outcomes = RuleSet([Rule("mine", text)]).run_each(asked, Counting(), limits=RuleLimits(seconds=0.5))
    found += (str(one) if isinstance(one, RefusedByRule) else one[1].notes for one in outcomes)
    assert found[0] == ["0"]
    assert found[1] == "no (admission rule mine)"
    assert "it ran longer than 0.5 s" in str(found[2])
    assert found[3] == ["3"]


def test_who_leaves_after_the_last_outcome_leaves_the_process_to_the_next() -> None:
    """Outcomes may be taken one by one, and nobody has to ask whether there is one more."""
    rules = RuleSet([Rule("mine", ESCAPED + "note(system['getpid']())")])

    def process(asked: int, taken: int) -> object:
        outcomes = rules.run_each([Submission("ann")] * asked, FixedSite())
        found = [next(outcomes) for _ in range(taken)]
        del outcomes
        assert not isinstance(found[-1], RefusedByRule)
        return found[-1][1].notes

    first = process(asked=2, taken=2)
    assert process(asked=2, taken=1) == first
    assert process(asked=1, taken=1) != first, "answers that nobody took would be those to the next question"
