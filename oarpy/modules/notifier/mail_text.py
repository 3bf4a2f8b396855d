"""The texts of mails: templates of Jinja2, each of which a site may replace by a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import structlog
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader, StrictUndefined
from jinja2 import TemplateError as BrokenTemplate

from oarpy.modules.notifier.mail import Letter
from oarpy.store.jobs.notices import NoticeRow

log = structlog.get_logger()

_SHIPPED = "shipped"


class MailWriter:
    """Writes the mails of one cluster.

    A template has the blocks ``subject`` and ``body``. ``job-END.txt`` in the site's ``folder`` is for that tag alone,
    ``job.txt`` for the others, ``admin.txt`` for the admin; ``{% extends "shipped/job.txt" %}`` changes one block. A
    file that cannot be used is logged, and the shipped template serves.
    """

    def __init__(self, folder: str, cluster: str) -> None:
        self._cluster = cluster
        shipped = PackageLoader("oarpy.modules.notifier")
        folders = [FileSystemLoader(folder)] if folder else []
        loader = ChoiceLoader([*folders, shipped, PrefixLoader({_SHIPPED: shipped})])
        # a mail is plain text: nothing is escaped
        self._templates = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True)

    def letter(self, row: NoticeRow, recipient: str, instance: str) -> Letter:
        """Return the mail that tells ``row``; ``instance`` is the number of the installation."""
        values = {
            "tag": row.tag,
            "job": row.number,
            "grid": row.grid_job is not None,
            "recurring": row.recurring_job is not None,
            "name": row.name,
            "user": row.user,
            "comment": row.comment,
            "cluster": self._cluster,
            "date": datetime.fromtimestamp(row.at).astimezone(),
        }
        kind = "job" if row.subject else "admin"
        subject, body = self._rendered(kind, row.tag, values)
        return Letter(f"notice-{row.id}.{instance}", recipient, subject, body, row.at)

    def _rendered(self, kind: str, tag: str, values: Mapping[str, object]) -> tuple[str, str]:
        try:
            return self._blocks([f"{kind}-{tag}.txt", f"{kind}.txt"], values)
        # a faulty file of the site may raise any exception
        except Exception as error:
            log.warning("mail template failed", template=getattr(error, "name", None) or kind, reason=str(error)[:300])
            return self._blocks([f"{_SHIPPED}/{kind}.txt"], values)

    def _blocks(self, names: list[str], values: Mapping[str, object]) -> tuple[str, str]:
        template = self._templates.select_template(names)
        context = template.new_context(dict(values))
        # only a rendered template knows the blocks of the templates that it extends
        for _ in template.root_render_func(context):
            pass
        missing = [name for name in ("subject", "body") if name not in context.blocks]
        if missing:
            raise BrokenTemplate(f"{template.name} has no block '{missing[0]}'")
        subject, body = ("".join(context.blocks[name][0](context)) for name in ("subject", "body"))
        return subject, body
