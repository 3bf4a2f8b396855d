"""Pages for browsers: Jinja2 templates of ``oarpy/web/templates`` over the data that commands show too.

``routes.add(app)`` hooks them into the application. A page is read in one session; parts marked ``data-live`` come
again when the stream says that something changed. An *action* is confirmed on a page of its own and done by a POST. The
private data of a job (command, folder, outputs) is given to templates for its owner and for admins only. May import
``oarpy.web`` and everything below it.
"""

from __future__ import annotations
