# SPDX-License-Identifier: MIT
from packaging.version import Version
from psij.descriptor import Descriptor


__PSI_J_EXECUTORS__ = [Descriptor(name='oar', nice_name='OAR', version=Version('0.0.1'),
                                  cls='psij.executors.batch.oar.OARJobExecutor')]

__PSI_J_LAUNCHERS__ = [Descriptor(name='oarsh', version=Version('0.0.1'),
                                  cls='psij.launchers.oarsh.OARShLauncher')]
