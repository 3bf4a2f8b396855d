"""Virtual time and what is driven by it: the production planner, and the counting FCFS and EASY.

The counting engines know processors as a number: they are fast, and the oracle of the planner's own policies.
"""

from __future__ import annotations
