# SPDX-License-Identifier: Apache-2.0
"""An execution provider for the resource and task manager OAR."""

from parsl_oar.oar import OARProvider

__all__ = ["OARProvider"]
