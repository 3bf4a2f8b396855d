"""The notifier: it tells users and the admin about events, by mails and commands.

``notifier`` is the module, ``mail_text`` writes mails from templates, ``mail`` hands them to a mail server, ``command``
runs the commands of ``--notify exec:``. A *notice* is news that a user or the admin is still to get. May import
``oarpy.modules.loop``, ``oarpy.store`` and everything below them.
"""

from __future__ import annotations
