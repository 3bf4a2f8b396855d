"""Each letter goes to one recipient, whatever the recipient is called, and one that cannot be sent stops no other."""

from __future__ import annotations

import pytest

from oarpy.configuration import Mail
from oarpy.modules.notifier.mail import Failure, Letter, send
from tests.harness.mail_server import MailServer, mail_server


def _sent(*recipients: str) -> tuple[MailServer, list[Failure | None]]:
    """The server after letters to these recipients, and what became of each."""
    outcomes: dict[int, Failure | None] = {}
    with mail_server() as post:
        letters = [Letter(f"l{place}", name, "news", "text", 0.0) for place, name in enumerate(recipients)]
        send(letters, Mail(server=f"127.0.0.1:{post.port}", timeout=5.0), outcomes.__setitem__)
    return post, [outcomes[place] for place in range(len(recipients))]


@pytest.mark.parametrize(
    ("recipient", "header"),
    [
        ("ann", "ann"),
        ("ann@site.org", "ann@site.org"),
        ("ann, eve@evil.org", '"ann, eve"@evil.org'),
        ("eve@evil.org>, <ann@site.org", '"eve@evil.org>, <ann"@site.org'),
    ],
)
def test_a_recipient_is_one_address(recipient: str, header: str) -> None:
    post, outcomes = _sent(recipient)
    assert outcomes == [None]
    assert [mail["To"] for mail in post.mails] == [header]
    assert post.recipients == [f"<{header}>"]


@pytest.mark.parametrize(
    "recipient", ["", "@site.org", "ann@", "ann@site.org, eve", "ann@.org", "ann\nBcc: eve@evil.org", "\udcff@site.org"]
)
def test_what_is_no_address_stops_no_other(recipient: str) -> None:
    post, (first, bad, last) = _sent("ann", recipient, "bob")
    assert (first, last) == (None, None)
    assert bad is not None
    assert (bad.permanent, bad.reason.isprintable()) == (True, True)
    assert bad.reason == f"{recipient!a} is no mail address"
    assert [mail["To"] for mail in post.mails] == ["ann", "bob"]


def test_an_address_that_the_server_does_not_know_how_to_take_stops_no_other() -> None:
    post, (bad, last) = _sent("\u00eavil@site.org", "bob")
    assert last is None
    assert bad is not None
    assert bad.permanent
    assert [mail["To"] for mail in post.mails] == ["bob"]
