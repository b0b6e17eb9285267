"""The public keys of others, in memory: of agents that sign requests, and of issuers of access tokens.

No request waits for a fetch. `known.KnownKeys.find` looks into the memory of the process. What is not there is asked
for: a job of the table of jobs fetches it (`fetching`) and stores it in the table `key_sets`, from which every process
loads it within seconds.
"""
