"""The work of a service that waits for a time: one table of jobs (`storage.jobs`), and one loop in every process.

A row is a job: its kind, its dealer, a subject such as a feed, when it is due, its lease, its attempts since it last
succeeded, and a result for the next run. The dealer ALL_DEALERS stands for the operator of an installation.

A job is added in the transaction that makes it necessary: new settings add `settings`, an alert adds one job for each
receiver of its message. Most jobs never end: each run says when the next one is due.

The loop (`jobs.loop`) finds what is due with one indexed query for each kind. It takes the lease of a job, renews it
while the job runs, and stores when the job is due next. After a kill, another process takes the job over when the lease
ends. A process that was stopped meanwhile stores nothing that the new owner could overwrite: `hold_job` locks the row
and raises LeaseLost. So each job can be repeated.

A kind is a function and its rule for another attempt (`loop.Kind`):

- `settings`: stores the feeds and the other jobs of a dealer, after its settings have changed (`bootstrap.jobs`);
- `feed`: collects a feed (`feeds.collection.collector`);
- `disposal`, `heads`, `report`, `keys`: the maintenance of a dealer (`privacy.maintenance`, `reports.monthly_mail`,
  `privacy.key_rotation`);
- `held`: removes the units that were held back for a day from what buyers see (`privacy.maintenance`);
- `keys of agents`: fetches the public keys of an agent or an issuer (`known_keys`);
- `mcp_answer`: removes an answer of a person that no MCP host's call has read (`storage.mcp_answers`);
- `alert check`, `alert mail`, `alert webhook`: conditions, and messages about them (`alerts.jobs`).

Deliveries have the same leases in a table of their own, `outbox`: a row for each in this table would make every lead
dearer, and a transaction for each would double the cost of a delivery (`delivery.loop` has the figures).

Work on the files of a machine is not a job, because every machine must do it: the key file, the files of removed
dealers, the alert about a database that does not answer (`server.repeated_steps` repeats it).
"""
