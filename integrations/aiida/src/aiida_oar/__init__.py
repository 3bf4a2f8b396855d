# SPDX-License-Identifier: MIT
"""A scheduler plugin for the resource and task manager OAR."""
