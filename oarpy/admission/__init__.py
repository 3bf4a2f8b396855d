"""Admission: property filters, and the rules that change or refuse a submission before it is stored.

- ``filters``: conditions that users type, checked, evaluated, and written as SQL with bound values.
- ``rules``: Python texts of the site, run one after the other over a submission, and the cases that prove them.

A *filter* is a condition on properties. A *rule* sees a *submission*, asks the *site*, and may show *notes* to the
user. A *trace* records the effects of each rule.

Imports ``oarpy.model`` alone, so that filters and rules are tried without a database.
"""

from __future__ import annotations
