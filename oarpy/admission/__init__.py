"""Admission: property filters, and the rules that change or refuse a submission before it is stored.

- ``filters``: conditions that users type, checked, evaluated, and written as SQL with bound values.
- ``rules``: Python texts of the site, run one after the other over a submission, and the cases that prove them.

Words: a *filter* is a condition on properties; a *rule* sees a *submission* and asks the *site*; a *note* is a line
that it shows to the user; a *trace* tells what each rule did.

Imports ``oarpy.model`` alone, so that filters and rules are tried without a database.
"""

from __future__ import annotations
