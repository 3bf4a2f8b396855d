"""Applications that choose their own hosts: the order of service, the view of each, and their starts.

::

    ended ---> ghosts (kept back) --.
                                    v
    started ------------------> occupation ---> turn of each application, by rank: view, place
                                                    |
                                                    '--> starts, views sent, estimates

A *view* has a profile of each cluster that an application may use: the number of hosts that it cannot have, over time.
An application is *in line* when it has asked for hosts and has none. A *ghost* is a set of freed hosts that are kept
back, so that applications in line can ask for them. Instants are numbers of any one kind and unit; integers and
fractions are exact. May import ``oarpy.negotiation`` and ``oarpy.model``.
"""

from __future__ import annotations
