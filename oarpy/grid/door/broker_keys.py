"""The key of a broker as a line of ``authorized_keys``: it opens the door, and nothing else."""

from __future__ import annotations

import base64
import re
from binascii import Error

from oarpy.configuration import Configuration
from oarpy.grid.door.grants import require_broker
from oarpy.model.errors import UsageError

_KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_KEY = re.compile(rf"({'|'.join(_KINDS)}) ([A-Za-z0-9+/]+=*)(?:\s|\Z)")


LARGEST = 10_000
"""Bytes of a file with a public key."""


def authorized_line(configuration: Configuration, broker: str, public_key: str, program: str) -> str:
    """Return the line for a key, with ``program`` as its only command. Raises :class:`UsageError`, :class:`NotFound`.

    The comment of the key is left out: only the key itself comes into the file.
    """
    require_broker(configuration, broker)
    match = _KEY.match(public_key.strip())
    if match is None or not _names_itself(match[1], match[2]):
        raise UsageError("that is no public key of SSH", hint="the file KEY.pub that ssh-keygen wrote")
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", program):
        raise UsageError(f"'{program[:80]}' cannot be the path of oargriddoor", hint="letters, digits and ./_-")
    return f'restrict,command="{program} {broker}" {match[1]} {match[2]} {broker}\n'


def _names_itself(kind: str, key: str) -> bool:
    """Tell whether the key begins with its own kind, as keys of SSH do."""
    try:
        data = base64.b64decode(key, validate=True)
    except (Error, ValueError):
        return False
    return data[:4] == len(kind).to_bytes(4, "big") and data[4 : 4 + len(kind)] == kind.encode()
