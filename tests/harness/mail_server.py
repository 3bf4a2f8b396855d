"""A mail server on the loopback that keeps what it is given, and can be told to refuse."""

from __future__ import annotations

import email
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message


@dataclass(slots=True)
class MailServer:
    """``refusals`` are answers to MAIL, used up one by one before anything is taken; ``mails`` what was taken.

    ``recipients`` are the addresses that were given for them, in angle brackets.
    """

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    connections: int = 0

    def subjects(self) -> list[str]:
        """The subjects in the order of arrival."""
        return [str(mail["Subject"]) for mail in self.mails]


class _Handler(socketserver.StreamRequestHandler):
    kept: MailServer

    def handle(self) -> None:
        self.kept.connections += 1
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            verb = line.split()[0].upper()
            if verb == "QUIT":
                self._say("221 bye")
                return
            if verb == "DATA":
                self._take()
            elif verb == "MAIL" and self.kept.refusals:
                self._say(self.kept.refusals.pop(0))
            else:
                if verb == "RCPT":
                    self.kept.recipients.append(line.partition(":")[2])
                self._say("250 ok")

    def _take(self) -> None:
        self._say("354 go on")
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line)
        self.kept.mails.append(email.message_from_bytes(b"".join(lines)))
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def mail_server(port: int = 0) -> Iterator[MailServer]:
    """Run one on a free port, or on this one."""
    kept = MailServer()
    handler = type("Handler", (_Handler,), {"kept": kept})
    with _Server(("127.0.0.1", port), handler) as server:
        kept.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()
