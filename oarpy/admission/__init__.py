"""Admission: property filters, and the rules that change or refuse a submission.

``filters`` checks, evaluates and writes the conditions users type (``filter_tree`` and ``filter_values`` do the work).
``submission`` is what rules see and what is stored in the end; ``site`` what they may ask; ``rule_api`` the names they
work with; ``rules`` runs them under the limits of ``time_limit`` and traces them; ``default_rules`` reads the ones that
come with the software; ``rule_cases`` and ``rule_comparison`` try rules without submitting anything.
"""

from __future__ import annotations
