"""Handing mails to a mail server."""

from __future__ import annotations

import smtplib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate

from oarpy.configuration import Mail

_SMTP_PORT = 25
_PERMANENT = 500


@dataclass(frozen=True, slots=True)
class Letter:
    """One mail to one ``recipient``, an address or the name of a user.

    ``identity`` stays the same when it is sent again, ``at`` (epoch seconds) is its date.
    """

    identity: str
    recipient: str
    subject: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a notice was not sent, and whether trying again is of no use."""

    reason: str
    permanent: bool


def send(letters: Sequence[Letter], settings: Mail, note: Callable[[int, Failure | None], None]) -> None:
    """Send letters over one connection; ``note`` gets for each its place, and None or why it was not sent."""
    host, _, port = settings.server.partition(":")
    done = 0
    try:
        with smtplib.SMTP(host, int(port or _SMTP_PORT), timeout=settings.timeout) as server:
            for letter in letters:
                note(done, _send(server, letter, settings.sender))
                done += 1
    except (OSError, ValueError) as error:
        failure = Failure(f"mail server {settings.server}: {error}"[:300], permanent=False)
        for place in range(done, len(letters)):
            note(place, failure)


def _send(server: smtplib.SMTP, letter: Letter, sender: str) -> Failure | None:
    try:
        recipient = _address(letter.recipient)
    # the parser raises IndexError for a text that ends too early
    except (MessageError, ValueError, IndexError):
        return Failure(f"{letter.recipient[:80]!a} is no mail address", permanent=True)
    message = EmailMessage()
    # a header is one line
    subject = " ".join(letter.subject.split())
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = formatdate(letter.at)
    message["Message-ID"] = f"<{letter.identity}@{socket.gethostname()}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text)
    try:
        server.send_message(message, to_addrs=[recipient.addr_spec])
    except smtplib.SMTPNotSupportedError as refusal:
        return Failure(f"{recipient.addr_spec!a}: {refusal}"[:300], permanent=True)
    except smtplib.SMTPRecipientsRefused as refusal:
        code, text = next(iter(refusal.recipients.values()))
        return _refusal(code, text)
    except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as refusal:
        return _refusal(refusal.smtp_code, refusal.smtp_error)
    return None


def _address(recipient: str) -> Address:
    """Return the address of a recipient: a name that no address has as it is, is quoted.

    Raises :class:`ValueError`, :class:`MessageError` or :class:`IndexError` for what is none.
    """
    name, at, domain = recipient.rpartition("@") if "@" in recipient else (recipient, "", "")
    if not name or not name.isprintable():
        raise ValueError(recipient)
    return Address(username=name, domain=Address(addr_spec=f"name@{domain}").domain if at else "")


def _refusal(code: int, text: bytes | str) -> Failure:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return Failure(f"refused by the mail server: {code} {words}"[:300], permanent=code >= _PERMANENT)
