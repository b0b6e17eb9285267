"""The public keys of agents and of issuers: fetched in the background, stored, and loaded by every process.

A *source* names where keys are: an https origin for the key directory of an agent. `kinds` has the kinds of sources,
and how each is fetched and read. `fetching` does the jobs, one for each source. `known` has the keys of a process: a
request looks them up and never waits (docs/protocol.md#known-keys).

Strangers name sources. So an address may go only to public hosts, redirects are not followed, size and time of a
response are bounded, and so are the sources: MAX_SOURCES in the database, and MAX_ASKED new ones a minute for each
process. The sources that the settings name are *pinned*: strangers cannot displace them.
"""
