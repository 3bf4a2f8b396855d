"""What users and launchers ask for: applications, hosts for them, more and fewer hosts for running jobs, links.

- ``application_requests``: subscriptions and requests, which pass the admission rules as submissions do.
- ``resizing``: ``oarresize``, and what launchers ask for while their jobs run.
- ``cluster_links``: what admins say of links between clusters.

May import ``oarpy.client`` and what is below it.
"""

from __future__ import annotations
