"""Pages for browsers: Jinja2 templates of ``oarpy/web/templates`` over what the endpoints return too.

``routes.add(app)`` hooks them into the application. May import ``oarpy.web`` and everything below it.
"""

from __future__ import annotations
