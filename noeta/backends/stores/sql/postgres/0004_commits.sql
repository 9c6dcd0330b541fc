-- append_1, append_many_1, fail_1: how a worker changes its task.
-- Answers are data (an outcome, ids, numbers, instants), never exceptions, and never hold a body.

-- What a row becomes: a line of the transition table of noeta/core/task.py, computed in core.
CREATE TYPE {schema}.target_1 AS (
    status text,
    kept boolean,
    clears_owner boolean,
    ready_at bigint,
    ready_in bigint,
    wake_on text,
    wake_key text,
    wake_missing bigint
);

-- Apply a commit if the claim is current. Keeps: one-writer, gapless-log, acked-stays, taken-once, children-once.
-- Takes: the row locks of the task and of every post's task, in one statement, in id order (ids of children sort after
-- their parent's), before it reads or checks anything: own row first would deadlock with the parent that posts back.
--
-- Outcomes: landed; unknown (no such task); lost (the fence); moved_log (expected_seq); taken (an item to take is not
-- unread); other_child (a child's id exists with other content). Only landed has written anything.
-- p_takes: item numbers; p_take_at: the index of the entry that takes each, from 0. o_refused: places of posts, from 0.
CREATE FUNCTION {schema}.append_1(p_task_id text, p_epoch bigint, p_token text, p_expected_seq bigint,
    p_bodies text[], p_ending text, p_takes bigint[], p_take_at bigint[], p_inbox_seen bigint,
    p_target {schema}.target_1, p_target_moved {schema}.target_1, p_resets_failures boolean,
    p_post_task text[], p_post_key text[], p_post_body text[], p_post_wake text[], p_post_group text[],
    p_post_with_ending boolean[],
    p_child_id text[], p_child_queue text[], p_child_body text[], p_child_hash text[], p_child_ready_in bigint[],
    p_child_group text[],
    p_content_hash text[], p_content_type text[], p_content_body bytea[],
    OUT o_outcome text, OUT o_detail text, OUT o_last_seq bigint, OUT o_at bigint, OUT o_status text,
    OUT o_moved boolean, OUT o_inbox_seq bigint, OUT o_refused text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_row {schema}.task%ROWTYPE;
    v_target {schema}.target_1;
    v_bodies text[] := p_bodies;
    v_ends boolean;
    v_count bigint;
    v_refused text[] := ARRAY[]::text[];
BEGIN
    IF cardinality(p_post_task) > 0 THEN
        PERFORM 1 FROM {schema}.task t WHERE t.id = ANY (p_post_task || p_task_id) ORDER BY t.id FOR UPDATE;
    END IF;
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    o_at := {schema}.clock();  -- read after the lock: the wait for it may have outlived the lease
    -- Keeps: one-writer
    IF v_row.epoch <> p_epoch OR v_row.token IS DISTINCT FROM p_token
        OR v_row.lease_until IS NULL OR v_row.lease_until <= o_at
        OR NOT (v_row.status = 'running' OR v_row.kept)
    THEN
        o_outcome := 'lost';
        o_detail := v_row.status || ' at epoch ' || v_row.epoch;
        RETURN;
    END IF;
    IF v_row.last_seq <> p_expected_seq THEN  -- Keeps: one-writer, gapless-log
        o_outcome := 'moved_log';
        o_detail := v_row.last_seq::text;
        RETURN;
    END IF;
    o_inbox_seq := v_row.inbox_seq;
    o_moved := p_inbox_seen IS NOT NULL AND v_row.inbox_seq > p_inbox_seen;  -- Keeps: wake-once
    IF o_moved THEN
        v_target := p_target_moved;
    ELSE
        v_target := p_target;
    END IF;
    v_ends := p_ending IS NOT NULL AND v_target.status = 'terminal';
    IF v_ends THEN
        v_bodies := v_bodies || p_ending;
    END IF;

    IF cardinality(p_takes) > 0 THEN
        SELECT min(k.number) INTO v_count FROM unnest(p_takes) AS k (number)
        WHERE NOT EXISTS (
            SELECT 1 FROM {schema}.item i
            WHERE i.task_id = p_task_id AND i.number = k.number AND i.taken_seq IS NULL AND i.unread_seq IS NULL
        );
        IF v_count IS NOT NULL THEN  -- Keeps: taken-once
            o_outcome := 'taken';
            o_detail := v_count::text;
            RETURN;
        END IF;
    END IF;
    IF cardinality(p_child_id) > 0 THEN
        SELECT min(t.id) INTO o_detail FROM unnest(p_child_id, p_child_hash) AS k (id, hash)
        JOIN {schema}.task t ON t.id = k.id WHERE t.content_hash <> k.hash;
        IF o_detail IS NOT NULL THEN
            o_outcome := 'other_child';
            RETURN;
        END IF;
    END IF;

    -- Nothing was written above this line, and everything below lands together. Keeps: acked-stays.
    o_outcome := 'landed';
    o_last_seq := v_row.last_seq + cardinality(v_bodies);
    INSERT INTO {schema}.entry (task_id, seq, epoch, at, body)
    SELECT p_task_id, v_row.last_seq + b.place, v_row.epoch, o_at, b.body::json
    FROM unnest(v_bodies) WITH ORDINALITY AS b (body, place);
    IF cardinality(p_takes) > 0 THEN
        UPDATE {schema}.item i SET taken_seq = v_row.last_seq + 1 + k.place, body = NULL
        FROM unnest(p_takes, p_take_at) AS k (number, place)
        WHERE i.task_id = p_task_id AND i.number = k.number;
    END IF;
    IF v_ends THEN
        UPDATE {schema}.item i SET unread_seq = o_last_seq
        WHERE i.task_id = p_task_id AND i.taken_seq IS NULL AND i.unread_seq IS NULL;
    END IF;
    UPDATE {schema}.task t
    SET status = v_target.status,
        kept = v_target.kept,
        worker = CASE WHEN v_target.clears_owner THEN NULL ELSE t.worker END,
        token = CASE WHEN v_target.clears_owner THEN NULL ELSE t.token END,
        lease_until = CASE WHEN v_target.clears_owner THEN NULL ELSE t.lease_until END,
        lease_check_at = CASE WHEN v_target.clears_owner THEN NULL ELSE t.lease_check_at END,
        ready_at = coalesce(v_target.ready_at, o_at + v_target.ready_in),
        wake_on = v_target.wake_on::json,
        wake_key = v_target.wake_key,
        wake_missing = v_target.wake_missing,
        last_seq = o_last_seq,
        takeovers = CASE WHEN cardinality(v_bodies) > 0 THEN 0 ELSE t.takeovers END,
        fail_attempts = CASE WHEN p_resets_failures THEN 0 ELSE t.fail_attempts END
    WHERE t.id = p_task_id;
    o_status := v_target.status;

    IF cardinality(p_child_id) > 0 THEN  -- Keeps: children-once
        WITH born AS (
            INSERT INTO {schema}.task (id, queue, status, ready_at, created_at, content_hash, parent, group_id)
            SELECT k.id, k.queue, 'pending', o_at + k.ready_in, o_at, k.hash, p_task_id, k.group_id
            FROM unnest(p_child_id, p_child_queue, p_child_hash, p_child_ready_in, p_child_group)
                AS k (id, queue, hash, ready_in, group_id)
            ON CONFLICT ON CONSTRAINT task_key DO NOTHING
            RETURNING id
        )
        INSERT INTO {schema}.entry (task_id, seq, epoch, at, body)
        SELECT DISTINCT ON (k.id) k.id, 1, 0, o_at, k.body::json
        FROM unnest(p_child_id, p_child_body) AS k (id, body) JOIN born ON born.id = k.id;
    END IF;
    IF cardinality(p_content_hash) > 0 THEN
        INSERT INTO {schema}.content (hash, media_type, body, at)
        SELECT k.hash, k.media_type, k.body, o_at
        FROM unnest(p_content_hash, p_content_type, p_content_body) AS k (hash, media_type, body)
        ORDER BY k.hash ON CONFLICT ON CONSTRAINT content_key DO NOTHING;
    END IF;
    FOR i IN 1..cardinality(p_post_task) LOOP
        CONTINUE WHEN p_post_with_ending[i] AND NOT v_ends;
        SELECT CASE WHEN p.o_outcome IN ('unknown', 'ended') THEN v_refused || (i - 1)::text ELSE v_refused END
        INTO v_refused
        FROM {schema}.post_1(p_post_task[i], p_post_key[i], p_post_body[i], p_post_wake[i], p_post_group[i]) p;
        IF p_post_task[i] = p_task_id THEN
            SELECT t.status INTO o_status FROM {schema}.task t WHERE t.id = p_task_id;
        END IF;
    END LOOP;
    o_refused := '[' || array_to_string(v_refused, ',') || ']';
END
$noeta$;

-- Commits of different tasks in one round trip, without posts, children and contents; one answer row a member.
-- Takes: every row lock in id order, as append_1 does. A refused member touches no other. Keeps: one-writer.
-- p_bodies and p_takes are those of all members in a row; p_body_count and p_take_count say whose is whose.
CREATE FUNCTION {schema}.append_many_1(p_task_id text[], p_epoch bigint[], p_token text[], p_expected_seq bigint[],
    p_bodies text[], p_body_count bigint[], p_ending text[], p_takes bigint[], p_take_at bigint[],
    p_take_count bigint[], p_inbox_seen bigint[], p_target {schema}.target_1[], p_target_moved {schema}.target_1[],
    p_resets_failures boolean[])
RETURNS TABLE (o_outcome text, o_detail text, o_last_seq bigint, o_at bigint, o_status text, o_moved boolean,
    o_inbox_seq bigint, o_refused text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_body bigint := 0;
    v_take bigint := 0;
BEGIN
    PERFORM 1 FROM {schema}.task t WHERE t.id = ANY (p_task_id) ORDER BY t.id FOR UPDATE;
    FOR i IN 1..cardinality(p_task_id) LOOP
        RETURN QUERY SELECT a.* FROM {schema}.append_1(
            p_task_id[i], p_epoch[i], p_token[i], p_expected_seq[i],
            p_bodies[v_body + 1 : v_body + p_body_count[i]], p_ending[i],
            p_takes[v_take + 1 : v_take + p_take_count[i]], p_take_at[v_take + 1 : v_take + p_take_count[i]],
            p_inbox_seen[i], p_target[i], p_target_moved[i], p_resets_failures[i],
            ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::boolean[],
            ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::bigint[], ARRAY[]::text[],
            ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::bytea[]) a;
        v_body := v_body + p_body_count[i];
        v_take := v_take + p_take_count[i];
    END LOOP;
END
$noeta$;

-- An error escaped the step: the task rests and is tried again, or, at the bound, ends with p_ending, its result going
-- to its parent. Takes: the row locks of the task and its parent, in id order. Keeps: one-writer, bounded.
-- p_rests: the rest after the n-th failure, from n = 0.
CREATE FUNCTION {schema}.fail_1(p_task_id text, p_epoch bigint, p_token text, p_retryable boolean, p_attempts_max bigint,
    p_rests bigint[], p_ending text, p_parent text, p_result_key text, p_result_body text, p_result_wake text,
    p_result_group text,
    OUT o_outcome text, OUT o_detail text, OUT o_fail_attempts bigint, OUT o_last_seq bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_now bigint;
    v_row {schema}.task%ROWTYPE;
BEGIN
    PERFORM 1 FROM {schema}.task t WHERE t.id IN (p_task_id, p_parent) ORDER BY t.id FOR UPDATE;
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    v_now := {schema}.clock();
    -- Keeps: one-writer
    IF v_row.epoch <> p_epoch OR v_row.token IS DISTINCT FROM p_token
        OR v_row.lease_until IS NULL OR v_row.lease_until <= v_now
    THEN
        o_outcome := 'lost';
        o_detail := v_row.status || ' at epoch ' || v_row.epoch;
        RETURN;
    END IF;
    o_fail_attempts := v_row.fail_attempts + 1;
    IF p_retryable AND o_fail_attempts < p_attempts_max THEN
        o_outcome := 'pending';
        o_last_seq := v_row.last_seq;
        UPDATE {schema}.task t
        SET status = 'pending', kept = false, worker = NULL, token = NULL, lease_until = NULL, lease_check_at = NULL,
            ready_at = v_now + p_rests[least(o_fail_attempts + 1, cardinality(p_rests))],
            wake_on = NULL, wake_key = NULL, wake_missing = 0, fail_attempts = o_fail_attempts
        WHERE t.id = p_task_id;
        RETURN;
    END IF;
    o_outcome := 'terminal';
    o_last_seq := v_row.last_seq + 1;
    INSERT INTO {schema}.entry (task_id, seq, epoch, at, body)
    VALUES (p_task_id, o_last_seq, v_row.epoch, v_now, p_ending::json);
    UPDATE {schema}.item i SET unread_seq = o_last_seq
    WHERE i.task_id = p_task_id AND i.taken_seq IS NULL AND i.unread_seq IS NULL;
    UPDATE {schema}.task t
    SET status = 'terminal', kept = false, worker = NULL, token = NULL, lease_until = NULL, lease_check_at = NULL,
        ready_at = NULL, wake_on = NULL, wake_key = NULL, wake_missing = 0, last_seq = o_last_seq, takeovers = 0,
        fail_attempts = o_fail_attempts
    WHERE t.id = p_task_id;
    IF p_parent IS NOT NULL THEN  -- Keeps: children-once
        PERFORM 1 FROM {schema}.post_1(p_parent, p_result_key, p_result_body, p_result_wake, p_result_group);
    END IF;
END
$noeta$;
