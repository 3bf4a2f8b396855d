"""The requests of users and launchers: applications, hosts for them, more and fewer hosts for running jobs, links.

- ``application_requests``: subscriptions and requests, which pass the admission rules as submissions do.
- ``resizing``: ``oarresize``, and the requests of launchers while their jobs run.
- ``cluster_links``: links between clusters, described by admins.

May import ``oarpy.client`` and the layers below it.
"""

from __future__ import annotations
