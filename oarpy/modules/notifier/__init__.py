"""The notifier: mails and commands that tell users and the admin what happened."""

from __future__ import annotations
