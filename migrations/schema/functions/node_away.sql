-- A node that is drained or down has an author and a date, whoever made it so; a command may say more. One that sleeps to
-- save energy is not down. The triggers name the rows concerned "changed".
CREATE OR REPLACE FUNCTION node_away() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nodes n SET away_reason = coalesce(a.reason, ''), away_by = a.author, away_since = now()
        FROM (SELECT DISTINCT ON (c.network_address) c.network_address,
                     CASE WHEN c.state = 'Alive' OR c.state_by = 'admin' THEN session_user ELSE c.state_by END AS author,
                     CASE WHEN c.state = 'Suspected' AND c.state_by = 'monitor'
                          THEN 'no answer' || coalesce(': ' || nullif(m.channel_message, ''), '') END AS reason
              FROM changed c JOIN nodes m USING (network_address)
              WHERE m.away_since IS NULL AND (c.state <> 'Alive' OR c.drain)
                AND NOT (c.state = 'Absent' AND c.state_by = 'monitor')
              ORDER BY c.network_address, c.resource_id) a
        WHERE n.network_address = a.network_address;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER node_born_away AFTER INSERT ON resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION node_away();
CREATE OR REPLACE TRIGGER node_away AFTER UPDATE ON resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION node_away();
