"""The SSH keys of jobs: made here, or the user's own. Only the submitter and the job see a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oarpy.client.caller import current
from oarpy.client.session import Session
from oarpy.frontend.job_key import KEY_FILE
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.file_names import file_name
from oarpy.model.submission import Submission
from oarpy.store.database import Connection
from oarpy.store.jobs import submissions
from oarpy.store.jobs.submissions import KeyPair

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_LONGEST = 16_000
"""Bytes of a private key."""


def key_pairs(submission: Submission, environment: Mapping[str, str]) -> tuple[KeyPair, ...]:
    """Return the key of each job of a submission; nothing if the jobs have no keys.

    Outside of a job, ``OAR_JOB_KEY_FILE`` requests a key and names its file. Raises :class:`UsageError` for a file that
    is no private key, and for a key that several jobs would share.
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
    return tuple(_new_key_pair() for _ in range(submission.array_size))


def store(connection: Connection, submission: Submission, jobs: Sequence[int], pairs: Sequence[KeyPair]) -> None:
    """Keep the keys of jobs, inside the transaction that makes the jobs.

    Raises :class:`UsageError` for a key of the user's own that another live job has.
    """
    if not pairs:
        return
    if pairs[0].own and (holder := submissions.job_with_key(connection, pairs[0].public)):
        raise UsageError(f"job {holder} has this key already", hint="a key opens one job; -k makes a new one")
    submissions.keep_keys(connection, jobs, pairs)


def hand_out(session: Session, submission: Submission, jobs: Sequence[int], pairs: Sequence[KeyPair]) -> None:
    """Write the keys where their user wants them, after the jobs are stored: no transaction waits for the user's disk.

    Raises :class:`OarpyError` where that fails, and asks for the end of the jobs.
    """
    for job, pair in zip(jobs, pairs, strict=True) if submission.key_export else ():
        name = file_name(submission.key_export, job=job, name=submission.name, array=jobs[0], index=job - jobs[0] + 1)
        try:
            current().write_private(submission.key_export, name, pair.private)
        except OSError as error:
            from oarpy.client.jobs import actions
            from oarpy.client.jobs.selection import JobSelection

            actions.delete(session, JobSelection(tuple(jobs)))
            which = f"job {jobs[0]} is" if len(jobs) == 1 else f"jobs {jobs[0]} to {jobs[-1]} are"
            raise OarpyError(f"'{name}' cannot be written: {error.strerror}", hint=f"{which} deleted") from None


def _content(path: str) -> bytes:
    try:
        return current().read_file(path, _LONGEST)
    except OSError as error:
        raise UsageError(f"key file '{path}' cannot be read: {error.strerror}", hint="check its name") from None


def _new_key_pair() -> KeyPair:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode("ascii")
    return KeyPair(_public(key), text, own=False)


def _read(content: bytes, what: str) -> KeyPair:
    """Return a private key with its public half; raise :class:`UsageError` when it is none, or has a passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    load = load_ssh_private_key if b"BEGIN OPENSSH" in content else load_pem_private_key
    try:
        text = content.decode("ascii").strip() + "\n"
        return KeyPair(_public(load(text.encode(), None)), text, own=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError(
            f"{what} is no private SSH key without a passphrase", hint="ssh-keygen -t ed25519 makes one"
        ) from None


def _public(key: PrivateKeyTypes) -> str:
    """Return kind and content of the public key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")
