"""The triggers and the function of the first migration, as SQL."""

# SQLite runs no trigger for the change that a trigger makes.
SQLITE_TRIGGERS = (
    """
    CREATE TRIGGER revisions_added AFTER INSERT ON revisions
    BEGIN
        UPDATE revisions SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
        WHERE dealer_id = NEW.dealer_id;
    END
    """,
    """
    CREATE TRIGGER revisions_changed AFTER UPDATE OF stock_counter, token_counter, settings_counter ON revisions
    WHEN NEW.stock_counter <> OLD.stock_counter
        OR NEW.token_counter <> OLD.token_counter
        OR NEW.settings_counter <> OLD.settings_counter
    BEGIN
        UPDATE revisions SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
        WHERE dealer_id = NEW.dealer_id;
    END
    """,
)

# The functions name no table, or are bound to their tables when they are made (BEGIN ATOMIC). So nobody can redirect
# them with another search path.
POSTGRESQL_TRIGGERS = (
    """
    CREATE FUNCTION set_changed_at() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' OR OLD IS DISTINCT FROM NEW THEN
            NEW.changed_at := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
        END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER set_changed_at BEFORE INSERT OR UPDATE ON revisions FOR EACH ROW EXECUTE FUNCTION set_changed_at()",
    """
    CREATE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            PERFORM pg_notify('dealer_agent_changes', OLD.dealer_id);
        ELSIF TG_OP = 'INSERT' OR OLD IS DISTINCT FROM NEW THEN
            PERFORM pg_notify('dealer_agent_changes', NEW.dealer_id);
        END IF;
        RETURN NULL;
    END $$
    """,
    *(
        f"CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION announce_change()"
        for table in ("revisions", "registered_dealers", "dealer_hosts", "dealer_keys")
    ),
)

# It runs as the owner of the tables, for whom row-level security does not hold, and returns only ids. `outbox` of the
# application has the same statement for SQLite, and its explanation.
DUE_DEALERS = """
    CREATE FUNCTION dealers_with_due_deliveries(now_at bigint, latest bigint, most integer) RETURNS SETOF varchar
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        WITH RECURSIVE waiting(dealer_id) AS (
            SELECT min(dealer_id) FROM outbox WHERE state = 'waiting'
            UNION ALL
            SELECT (SELECT min(o.dealer_id) FROM outbox o WHERE o.state = 'waiting' AND o.dealer_id > w.dealer_id)
            FROM waiting w WHERE w.dealer_id IS NOT NULL
        )
        SELECT w.dealer_id
        FROM waiting w
        CROSS JOIN LATERAL (
            SELECT o.due_at FROM outbox o
            WHERE o.dealer_id = w.dealer_id AND o.state = 'waiting'
                AND COALESCE(NULLIF(o.due_at, o.created_at), 0) <= now_at
                AND (o.leased_until IS NULL OR o.leased_until <= now_at OR o.leased_until > latest)
                AND (
                    o.follows IS NULL
                    OR NOT EXISTS (
                        SELECT FROM outbox b
                        WHERE b.dealer_id = o.dealer_id AND b.delivery_id = o.follows
                            AND (b.state = 'waiting' OR b.leased_until > now_at AND b.leased_until <= latest)
                    )
                )
            ORDER BY COALESCE(NULLIF(o.due_at, o.created_at), 0)
            LIMIT 1
        ) oldest
        ORDER BY oldest.due_at, w.dealer_id
        LIMIT most;
    END
"""
