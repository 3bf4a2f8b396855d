"""The stream of events for those who listen: commands and servers.

``stream`` reads what is new, as events with a cursor each; ``listening`` waits for news; ``watching`` follows jobs for
``oarstat --watch``; ``event_text`` renders events as lines, JSON and server-sent events. May import the store and the
rest of the client.
"""
