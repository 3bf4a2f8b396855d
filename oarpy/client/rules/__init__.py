"""Admission rules as admins handle them: ``rules`` lists, edits and keeps versions, ``trials`` tries them out.

A *trial* compares the results of submissions with and without a change; a *proof* runs the cases of a rule. May import
the rest of ``oarpy.client`` and all that it may import.
"""

from __future__ import annotations
