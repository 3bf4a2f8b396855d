"""The stream of events for its listeners: commands and servers.

``stream`` reads new events, each with a cursor; ``listening`` waits for news; ``watching`` follows jobs for ``oarstat
--watch``; ``event_text`` renders events as lines, JSON and server-sent events. May import the store and the rest of the
client.
"""
