"""The notifier: it tells users and the admin what happened, by mails and commands.

``notifier`` is the module, ``mail_text`` writes mails from templates, ``mail`` hands them to a mail server, ``command``
runs what ``--notify exec:`` names. A *notice* is what somebody is still to be told. May import ``oarpy.modules.loop``,
``oarpy.store`` and everything below them.
"""

from __future__ import annotations
