-- put_content_1, put_snapshot_1: bodies beside the log.

-- Keep a body under its hash; the first media type stays. Takes: the new row's key.
CREATE FUNCTION {schema}.put_content_1(p_hash text, p_media_type text, p_body bytea, OUT o_outcome text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
BEGIN
    INSERT INTO {schema}.content (hash, media_type, body, at) VALUES (p_hash, p_media_type, p_body, {schema}.clock())
    ON CONFLICT ON CONSTRAINT content_key DO NOTHING;
    o_outcome := CASE WHEN FOUND THEN 'stored' ELSE 'repeat' END;
END
$noeta$;

-- Keep a folded state unless a newer one of its version is kept. Takes: the snapshot's row; never the task's.
CREATE FUNCTION {schema}.put_snapshot_1(p_task_id text, p_version text, p_seq bigint, p_body bytea, OUT o_outcome text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
BEGIN
    PERFORM 1 FROM {schema}.task t WHERE t.id = p_task_id;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    INSERT INTO {schema}.snapshot AS s (task_id, version, seq, body) VALUES (p_task_id, p_version, p_seq, p_body)
    ON CONFLICT ON CONSTRAINT snapshot_key DO UPDATE SET seq = excluded.seq, body = excluded.body
    WHERE s.seq <= excluded.seq;
    o_outcome := CASE WHEN FOUND THEN 'stored' ELSE 'older' END;
END
$noeta$;
