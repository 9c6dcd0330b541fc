-- create_1, post_1, wake_1, fire_timer_1: how tasks are born and how items reach them.
-- Functions carry a number, are never replaced, and go one release after their last caller.

-- Create a task with its first entry; a repeat with the same content changes nothing.
-- Takes: the new row's key (an insert that waits for a concurrent one). Keeps: gapless-log.
CREATE FUNCTION {schema}.create_1(p_id text, p_queue text, p_body text, p_content_hash text, p_ready_in bigint,
    OUT o_outcome text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_now bigint := {schema}.clock();
BEGIN
    INSERT INTO {schema}.task (id, queue, status, ready_at, created_at, content_hash)
    VALUES (p_id, p_queue, 'pending', v_now + p_ready_in, v_now, p_content_hash)
    ON CONFLICT ON CONSTRAINT task_key DO NOTHING;
    IF FOUND THEN
        INSERT INTO {schema}.entry (task_id, seq, epoch, at, body) VALUES (p_id, 1, 0, v_now, p_body::json);
        o_outcome := 'created';
    ELSE
        -- content_hash never changes, so that it may be read without a lock.
        SELECT CASE WHEN t.content_hash = p_content_hash THEN 'repeat' ELSE 'other' END INTO STRICT o_outcome
        FROM {schema}.task t WHERE t.id = p_id;
    END IF;
END
$noeta$;

-- Put an item in an inbox. Takes: the row lock. Keeps: taken-once, wake-once, terminal-is-final.
-- The order is the contract: the key first (a repeat is a repeat also after the end), then the terminal status.
CREATE FUNCTION {schema}.post_1(p_task_id text, p_key text, p_body text, p_wake_key text, p_group_key text,
    OUT o_outcome text, OUT o_number bigint, OUT o_made_ready boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_row {schema}.task%ROWTYPE;
    v_now bigint;
    v_missing bigint;
BEGIN
    o_made_ready := false;
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    v_now := {schema}.clock();
    IF p_key IS NOT NULL THEN
        SELECT i.number INTO o_number FROM {schema}.item i WHERE i.task_id = p_task_id AND i.key = p_key;
        IF FOUND THEN
            o_outcome := 'repeat';  -- Keeps: taken-once
            RETURN;
        END IF;
    END IF;
    IF v_row.status = 'terminal' THEN
        o_outcome := 'ended';  -- Keeps: terminal-is-final
        RETURN;
    END IF;
    o_outcome := 'stored';
    o_number := v_row.inbox_seq + 1;
    INSERT INTO {schema}.item (task_id, number, key, wake_key, group_key, body, at)
    VALUES (p_task_id, o_number, p_key, p_wake_key, p_group_key, p_body::json, v_now);
    v_missing := v_row.wake_missing;
    IF v_row.status = 'suspended' AND NOT v_row.kept THEN
        IF p_wake_key = 'control' THEN
            v_missing := 0;
            o_made_ready := true;
        ELSIF v_row.wake_key = p_wake_key OR v_row.wake_key = p_group_key THEN
            v_missing := v_row.wake_missing - 1;
            o_made_ready := v_missing <= 0;
        END IF;
    END IF;
    IF o_made_ready THEN  -- Keeps: wake-once
        UPDATE {schema}.task t
        SET inbox_seq = o_number, status = 'pending', ready_at = v_now,
            wake_on = NULL, wake_key = NULL, wake_missing = 0
        WHERE t.id = p_task_id;
    ELSE
        UPDATE {schema}.task t SET inbox_seq = o_number, wake_missing = v_missing WHERE t.id = p_task_id;
    END IF;
END
$noeta$;

-- A post whose key is derived under the lock: <wake key>@<last seq> if suspended, else <wake key>#<the item's number>.
-- Takes: the row lock. Keeps: wake-once.
CREATE FUNCTION {schema}.wake_1(p_task_id text, p_body text, p_wake_key text, p_group_key text,
    OUT o_outcome text, OUT o_number bigint, OUT o_made_ready boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_place text;
    v_number text;
BEGIN
    -- Two marks: a seq of the log must not be taken for a number of the inbox.
    SELECT CASE WHEN t.status = 'suspended' THEN '@' || t.last_seq END, '#' || (t.inbox_seq + 1)
    INTO v_place, v_number
    FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        o_made_ready := false;
        RETURN;
    END IF;
    PERFORM 1 FROM {schema}.item i
    WHERE i.task_id = p_task_id AND i.taken_seq IS NULL AND i.unread_seq IS NULL
        AND i.wake_key = p_wake_key AND i.body::text = p_body;
    IF FOUND THEN
        o_outcome := 'repeat';
        o_made_ready := false;
        RETURN;
    END IF;
    -- An unread item with this key carries another payload: this one is kept too.
    PERFORM 1 FROM {schema}.item i
    WHERE i.task_id = p_task_id AND i.key = p_wake_key || v_place AND i.taken_seq IS NULL AND i.unread_seq IS NULL;
    IF FOUND OR v_place IS NULL THEN
        v_place := v_number;
    END IF;
    SELECT p.o_outcome, p.o_number, p.o_made_ready INTO o_outcome, o_number, o_made_ready
    FROM {schema}.post_1(p_task_id, p_wake_key || v_place, p_body, p_wake_key, p_group_key) p;
END
$noeta$;

-- Store the item of a timer that is due, from the stored condition, byte for byte; answers the newest inbox number.
-- The caller holds the row lock and has read the row after it. Keeps: timers-once.
CREATE FUNCTION {schema}.fire_timer_1(p_row {schema}.task, p_now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_key text := 'timer:' || p_row.id || ':' || p_row.last_seq;
BEGIN
    PERFORM 1 FROM {schema}.item i WHERE i.task_id = p_row.id AND i.key = v_key;
    IF FOUND THEN
        RETURN p_row.inbox_seq;
    END IF;
    INSERT INTO {schema}.item (task_id, number, key, wake_key, body, at)
    VALUES (p_row.id, p_row.inbox_seq + 1, v_key, 'timer', p_row.wake_on, p_now);
    RETURN p_row.inbox_seq + 1;
END
$noeta$;
