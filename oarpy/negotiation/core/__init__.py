"""Applications that choose their own hosts: who is served in which order, what each is shown, and who starts.

::

    ended ---> ghosts (kept back) --.
                                    v
    started ------------------> occupation ---> turn of each application, by rank: view, place
                                                    |
                                                    '--> starts, views sent, estimates

A *view* has a profile of each cluster that an application may use: how many hosts it may not have, over time. An
application is *in line* when it has asked for hosts and has none. A *ghost* is hosts that somebody has freed and that
are kept back, so that those in line can ask for them. Instants are numbers of any one kind and unit; integers and
fractions are exact. May import ``oarpy.negotiation`` and ``oarpy.model``.
"""

from __future__ import annotations
