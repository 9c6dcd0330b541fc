-- resume_1: how the owner of a kept task goes on.

-- A kept task runs again, under the same claim and the same lease, and waits for nothing. If its wait's instant is due,
-- the stored condition is put into the inbox first. Of a task that runs already nothing changes.
-- Takes: the row lock. Keeps: one-writer, timers-once.
-- Outcomes: resumed; running (it was already); unknown (no such task); lost (the fence). Only resumed has written.
-- o_timer_fired: the item of this wait's timer was put into the inbox, by this call or by the one it repeats.
-- enable_seqscan off: a session keeps the plan it made while a table was small, until the next ANALYZE.
CREATE FUNCTION {schema}.resume_1(p_task_id text, p_epoch bigint, p_token text,
    OUT o_outcome text, OUT o_detail text, OUT o_now bigint, OUT o_inbox_seq bigint, OUT o_last_seq bigint,
    OUT o_timer_fired boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $noeta$
DECLARE
    v_row {schema}.task%ROWTYPE;
BEGIN
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    o_now := {schema}.clock();  -- read after the lock: the wait for it may have outlived the lease
    -- Without an owner, token and lease are NULL. Keeps: one-writer
    IF (v_row.epoch = p_epoch AND v_row.token = p_token AND v_row.lease_until > o_now) IS NOT TRUE THEN
        o_outcome := 'lost';
        o_detail := v_row.status || ' at epoch ' || v_row.epoch;
        RETURN;
    END IF;
    o_outcome := CASE WHEN v_row.kept THEN 'resumed' ELSE 'running' END;
    o_inbox_seq := v_row.inbox_seq;
    o_last_seq := v_row.last_seq;
    IF v_row.kept THEN
        IF v_row.ready_at <= o_now THEN
            o_inbox_seq := {schema}.fire_timer_1(v_row, o_now);
        END IF;
        UPDATE {schema}.task t
        SET status = 'running', kept = false, ready_at = NULL, wake_on = NULL, wake_key = NULL, wake_missing = 0,
            inbox_seq = o_inbox_seq
        WHERE t.id = p_task_id;
    END IF;
    o_timer_fired := EXISTS (
        SELECT 1 FROM {schema}.item i
        WHERE i.task_id = p_task_id AND i.key = 'timer:' || p_task_id || ':' || v_row.last_seq
    );
END
$noeta$;
