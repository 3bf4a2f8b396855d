"""The SSH keys of jobs: made with ssh-keygen, or the user's own. Nobody is shown one but who submits, and the job."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from oarpy.client.caller import current
from oarpy.frontend.job_key import KEY_FILE
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.file_names import file_name
from oarpy.model.submission import Submission
from oarpy.store.database import Connection
from oarpy.store.jobs import submissions
from oarpy.store.jobs.submissions import KeyPair

_LONGEST = 16_000
"""Bytes of a private key."""


def key_pairs(submission: Submission, environment: Mapping[str, str]) -> tuple[KeyPair, ...]:
    """Return the key of each job of a submission, none when it is to have none.

    ``OAR_JOB_KEY_FILE`` outside of a job asks for one, and names it. Raises :class:`UsageError` for a file that is no
    private key, and for one key that several jobs would have.
    """
    named = "" if "OAR_JOB_ID" in environment else environment.get(KEY_FILE, "")
    path = submission.key_file or ("" if submission.key_text else named)
    if not (submission.use_key or submission.key_text or submission.key_export or path):
        return ()
    if submission.array_size > 1:
        if path or submission.key_text:
            raise UsageError("an array with a key of one's own", hint="-k makes a key for each job")
        if submission.key_export and "%jobid%" not in submission.key_export:
            raise UsageError("an array with one file for its keys", hint="write %jobid% into the name")
    if submission.key_text:
        return (_read(submission.key_text.encode(), "the key given"),)
    if path:
        return (_read(_content(path), f"'{path}'"),)
    return tuple(_made() for _ in range(submission.array_size))


def store(connection: Connection, submission: Submission, jobs: Sequence[int], pairs: Sequence[KeyPair]) -> None:
    """Keep the keys of jobs, and write them where their user wants them; inside the transaction that makes the jobs.

    Raises :class:`UsageError` for a key that another live job has.
    """
    if not pairs:
        return
    if holder := submissions.job_with_key(connection, [pair.public for pair in pairs]):
        raise UsageError(f"job {holder} has this key already", hint="a key opens one job; -k makes a new one")
    submissions.keep_keys(connection, jobs, pairs)
    for job, pair in zip(jobs, pairs, strict=True) if submission.key_export else ():
        name = file_name(submission.key_export, job=job, name=submission.name, array=jobs[0], index=job - jobs[0] + 1)
        try:
            current().write_private(submission.key_export, name, pair.private)
        except OSError as error:
            raise OarpyError(f"'{name}' cannot be written: {error.strerror}", hint="nothing was submitted") from None


def _content(path: str) -> bytes:
    try:
        return current().read_file(path, _LONGEST)
    except OSError as error:
        raise UsageError(f"key file '{path}' cannot be read: {error.strerror}", hint="check its name") from None


def _made() -> KeyPair:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        _keygen("-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file))
        return KeyPair(_public(file.with_suffix(".pub").read_text("ascii")), file.read_text("ascii"))


def _read(content: bytes, what: str) -> KeyPair:
    """Return a private key with its public half; raise :class:`UsageError` when it is none, or has a passphrase."""
    wrong = UsageError(f"{what} is no private SSH key without a passphrase", hint="ssh-keygen -t ed25519 makes one")
    try:
        text = content.decode("ascii").strip() + "\n"
    except UnicodeDecodeError:
        raise wrong from None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        file.touch(0o600)
        file.write_text(text, "ascii")
        try:
            return KeyPair(_public(_keygen("-y", "-P", "", "-f", str(file))), text)
        except subprocess.CalledProcessError:
            raise wrong from None


def _keygen(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise OarpyError("the server has no ssh-keygen, which makes keys of jobs", hint="tell an admin") from None
    return done.stdout


def _public(text: str) -> str:
    """Return kind and content of a public key, without its comment."""
    return " ".join(text.split()[:2])
