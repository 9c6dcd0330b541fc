-- claim_1, renew_1, release_1, requeue_stale_1, fire_due_timers_1: who may write a task, and until when.
-- Claims, sweeps and renewals never wait for a row (SKIP LOCKED), so that they take part in no deadlock.

-- Every queue that has a row a claim could take: a loose scan of the two claim indexes, one probe a queue.
CREATE FUNCTION {schema}.queues_1() RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $noeta$
    WITH RECURSIVE ready(queue) AS (
        (SELECT t.queue FROM {schema}.task t WHERE t.worker IS NULL AND t.ready_at IS NOT NULL ORDER BY t.queue LIMIT 1)
        UNION ALL
        SELECT (
            SELECT t.queue FROM {schema}.task t
            WHERE t.worker IS NULL AND t.ready_at IS NOT NULL AND t.queue > r.queue ORDER BY t.queue LIMIT 1
        ) FROM ready r WHERE r.queue IS NOT NULL
    ), held(queue) AS (
        (SELECT t.queue FROM {schema}.task t WHERE t.worker IS NOT NULL ORDER BY t.queue LIMIT 1)
        UNION ALL
        SELECT (
            SELECT t.queue FROM {schema}.task t WHERE t.worker IS NOT NULL AND t.queue > h.queue ORDER BY t.queue LIMIT 1
        ) FROM held h WHERE h.queue IS NOT NULL
    )
    SELECT coalesce(array_agg(q.queue), ARRAY[]::text[])
    FROM (SELECT r.queue FROM ready r UNION SELECT h.queue FROM held h) q WHERE q.queue IS NOT NULL
$noeta$;

-- Take up to p_limit claimable tasks. Takes: row locks one by one, SKIP LOCKED, the condition read again after each.
-- Keeps: one-writer, epochs-rise, timers-once, bounded, waiting-is-free.
--
-- p_queues/p_floors: where to look first (a floor is a ready_at). p_restart: look again from the beginning when that
-- found too few; with p_all then in every queue there is. p_probe: probe lapsed leases even if enough was found.
-- p_lapse_floor: nothing below it needs a probe. p_rests: the rest after the n-th takeover in a row, from n = 0.
-- o_floors: per queue, the ready_at up to which this call left nothing behind. o_queues: the queues of a restart.
-- o_probed: every lease that had lapsed by o_now was dealt with.
CREATE FUNCTION {schema}.claim_1(p_worker text, p_token text, p_lease bigint, p_limit int,
    p_queues text[], p_floors bigint[], p_all boolean, p_restart boolean, p_probe boolean, p_lapse_floor bigint,
    p_rests bigint[], p_answer_bytes int,
    OUT o_now bigint, OUT o_claims text, OUT o_fired text, OUT o_requeued text, OUT o_floors text, OUT o_queues text,
    OUT o_probed boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $noeta$
DECLARE
    c_beginning CONSTANT bigint := '-9223372036854775808';
    v_claims text[] := ARRAY[]::text[];
    v_fired text[] := ARRAY[]::text[];
    v_requeued text[] := ARRAY[]::text[];
    v_queues text[] := p_queues;
    v_floors bigint[] := p_floors;
    v_floor_of jsonb := '{}';
    v_stuck jsonb := '{}';
    v_restart boolean := p_restart;
    v_bytes int := 0;
    v_page int;
    v_seen int;
    v_after_at bigint;
    v_after_id text;
    v_cause text;
    v_inbox bigint;
    v_rest bigint;
    c record;
    v_row {schema}.task%ROWTYPE;
BEGIN
    o_now := {schema}.clock();
    <<passes>>
    LOOP
        v_page := p_limit + 4;
        v_after_at := c_beginning;
        v_after_id := '';
        -- More pages only when others hold what this one showed.
        FOR v_round IN 1..4 LOOP
            v_seen := 0;
            -- Candidates without locks: FOR UPDATE inside the LATERAL would lock rows that are not taken.
            FOR c IN
                SELECT k.id, k.queue, k.ready_at
                FROM unnest(v_queues, v_floors) AS q (queue, floor)
                CROSS JOIN LATERAL (
                    SELECT t.id, t.queue, t.ready_at FROM {schema}.task t
                    -- One lower bound: with two, the scan begins at the lower one and walks dead entries.
                    WHERE t.queue = q.queue AND t.worker IS NULL AND t.ready_at <= o_now
                        AND (t.ready_at, t.id) >
                            (greatest(q.floor, v_after_at), CASE WHEN q.floor > v_after_at THEN '' ELSE v_after_id END)
                    ORDER BY t.ready_at, t.id LIMIT v_page
                ) k
                ORDER BY k.ready_at, k.id LIMIT v_page
            LOOP
                EXIT passes WHEN cardinality(v_claims) = p_limit OR v_bytes > p_answer_bytes;
                v_seen := v_seen + 1;
                v_after_at := c.ready_at;
                v_after_id := c.id;
                SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;
                IF NOT FOUND THEN
                    IF NOT v_stuck ? c.queue THEN
                        v_stuck := v_stuck || jsonb_build_object(c.queue, c.ready_at);
                    END IF;
                    CONTINUE;
                END IF;
                o_now := {schema}.clock();
                CONTINUE WHEN v_row.worker IS NOT NULL OR v_row.ready_at IS NULL OR v_row.ready_at > o_now;
                v_inbox := v_row.inbox_seq;
                IF v_row.status = 'suspended' THEN
                    v_inbox := {schema}.fire_timer_1(v_row, o_now);
                    v_fired := v_fired || to_json(v_row.id)::text;
                END IF;
                UPDATE {schema}.task t
                SET status = 'running', epoch = t.epoch + 1, worker = p_worker, token = p_token,  -- Keeps: epochs-rise
                    lease_until = o_now + p_lease, lease_check_at = o_now + p_lease, ready_at = NULL,
                    wake_on = NULL, wake_key = NULL, wake_missing = 0, inbox_seq = v_inbox
                WHERE t.id = v_row.id;
                v_claims := v_claims || json_build_array(v_row.id, v_row.queue, v_row.epoch + 1, o_now + p_lease,
                    v_row.last_seq, v_inbox, v_row.takeovers, v_row.fail_attempts, v_row.status, v_row.parent,
                    v_row.group_id)::text;
                v_floor_of := v_floor_of || jsonb_build_object(v_row.queue, c.ready_at);
                v_bytes := v_bytes + 40 + octet_length(v_claims[cardinality(v_claims)])
                    + octet_length(v_row.id) + octet_length(v_row.queue);
            END LOOP;
            EXIT WHEN v_seen < v_page;
            v_page := 4 * v_page;
        END LOOP;
        EXIT passes WHEN NOT v_restart OR cardinality(v_claims) = p_limit;
        v_restart := false;
        v_queues := CASE WHEN p_all THEN {schema}.queues_1() ELSE p_queues END;
        v_floors := array_fill(c_beginning, ARRAY[cardinality(v_queues)]);
        o_queues := array_to_json(v_queues)::text;
    END LOOP;

    -- Lapsed leases: taken when asked for more, otherwise put back; the same transition as the sweep, here.
    o_probed := false;
    IF cardinality(v_claims) < p_limit OR p_probe THEN
        o_probed := true;
        v_seen := 0;
        FOR c IN
            SELECT k.id
            FROM unnest(v_queues) AS q (queue)
            CROSS JOIN LATERAL (
                SELECT t.id, t.lease_until,
                    t.lease_until + p_rests[least(t.takeovers + 2, cardinality(p_rests))] AS due
                FROM {schema}.task t
                WHERE t.queue = q.queue AND t.worker IS NOT NULL
                    AND t.lease_check_at >= p_lapse_floor AND t.lease_check_at <= o_now
                ORDER BY t.lease_check_at, t.id LIMIT 100 + p_limit
            ) k
            -- Those that have rested enough first, then those to be put back, each the longest waiting first.
            ORDER BY k.due > o_now, CASE WHEN k.due > o_now THEN k.lease_until ELSE k.due END, k.id
            LIMIT 100 + p_limit
        LOOP
            v_seen := v_seen + 1;
            IF v_bytes > p_answer_bytes OR (cardinality(v_claims) = p_limit AND NOT p_probe) THEN
                o_probed := false;
                EXIT;
            END IF;
            SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                o_probed := false;
                CONTINUE;
            END IF;
            o_now := {schema}.clock();
            CONTINUE WHEN v_row.worker IS NULL OR v_row.lease_check_at > o_now;
            IF v_row.lease_until > o_now THEN
                UPDATE {schema}.task t SET lease_check_at = t.lease_until WHERE t.id = v_row.id;
                CONTINUE;
            END IF;
            v_rest := p_rests[least(v_row.takeovers + 2, cardinality(p_rests))];
            v_cause := CASE WHEN v_row.kept THEN 'kept' ELSE v_row.status END;
            IF cardinality(v_claims) < p_limit AND v_row.lease_until + v_rest <= o_now THEN
                UPDATE {schema}.task t
                SET status = 'running', kept = false, epoch = t.epoch + 1, worker = p_worker, token = p_token,
                    lease_until = o_now + p_lease, lease_check_at = o_now + p_lease, ready_at = NULL,
                    wake_on = NULL, wake_key = NULL, wake_missing = 0, takeovers = t.takeovers + 1  -- Keeps: bounded
                WHERE t.id = v_row.id;
                v_claims := v_claims || json_build_array(v_row.id, v_row.queue, v_row.epoch + 1, o_now + p_lease,
                    v_row.last_seq, v_row.inbox_seq, v_row.takeovers + 1, v_row.fail_attempts, v_cause, v_row.parent,
                    v_row.group_id)::text;
                v_bytes := v_bytes + octet_length(v_claims[cardinality(v_claims)]);
            ELSE
                UPDATE {schema}.task t
                SET status = 'pending', kept = false, worker = NULL, token = NULL, lease_until = NULL,
                    lease_check_at = NULL, ready_at = v_row.lease_until + v_rest,
                    wake_on = NULL, wake_key = NULL, wake_missing = 0, takeovers = t.takeovers + 1
                WHERE t.id = v_row.id;
            END IF;
            v_requeued := v_requeued || to_json(v_row.id)::text;
            v_bytes := v_bytes + octet_length(v_row.id) + 20;
        END LOOP;
        o_probed := o_probed AND v_seen < 100 + p_limit;
    END IF;

    o_claims := '[' || array_to_string(v_claims, ',') || ']';
    o_fired := '[' || array_to_string(v_fired, ',') || ']';
    o_requeued := '[' || array_to_string(v_requeued, ',') || ']';
    -- A bound never moves past a row that was found locked: it may come back with that ready_at.
    SELECT coalesce(json_object_agg(f.key, least(f.value::bigint, (v_stuck ->> f.key)::bigint)), '{}')::text INTO o_floors
    FROM jsonb_each_text(v_floor_of) f;
    IF octet_length(o_queues) > p_answer_bytes / 4 THEN
        o_queues := NULL;
    END IF;
END
$noeta$;

-- Extend claims to p_lease from now, one answer a claim. Takes: row locks one by one, SKIP LOCKED.
-- A claim whose lease is over is lost even if nobody took the task. Keeps: one-writer.
CREATE FUNCTION {schema}.renew_1(p_ids text[], p_epochs bigint[], p_tokens text[], p_lease bigint,
    OUT o_now bigint, OUT o_answers text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_answers text[] := ARRAY[]::text[];
    v_row {schema}.task%ROWTYPE;
BEGIN
    o_now := {schema}.clock();
    FOR i IN 1..cardinality(p_ids) LOOP
        SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_ids[i] FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            -- Somebody holds the row, or there is none. What is committed decides only against the claim: its epoch
            -- never comes back.
            PERFORM 1 FROM {schema}.task t WHERE t.id = p_ids[i] AND t.epoch = p_epochs[i] AND t.token = p_tokens[i];
            v_answers := v_answers || CASE WHEN FOUND THEN '["busy"]' ELSE '["lost"]' END;
            CONTINUE;
        END IF;
        o_now := {schema}.clock();
        IF v_row.epoch <> p_epochs[i] OR v_row.token IS DISTINCT FROM p_tokens[i]
            OR v_row.lease_until IS NULL OR v_row.lease_until <= o_now
        THEN
            v_answers := v_answers || '["lost"]'::text;
            CONTINUE;
        END IF;
        UPDATE {schema}.task t
        SET lease_until = o_now + p_lease,
            lease_check_at = CASE
                WHEN t.lease_check_at <= o_now THEN o_now + p_lease
                ELSE least(t.lease_check_at, o_now + p_lease)
            END
        WHERE t.id = v_row.id;
        v_answers := v_answers || json_build_array('held', o_now + p_lease, v_row.inbox_seq,
            v_row.kept AND v_row.ready_at IS NOT NULL AND v_row.ready_at <= o_now)::text;
    END LOOP;
    o_answers := '[' || array_to_string(v_answers, ',') || ']';
END
$noeta$;

-- Give a claim back: the task is pending at once. Takes: the row lock. Keeps: one-writer.
CREATE FUNCTION {schema}.release_1(p_task_id text, p_epoch bigint, p_token text, OUT o_outcome text, OUT o_detail text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_now bigint;
    v_row {schema}.task%ROWTYPE;
BEGIN
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    v_now := {schema}.clock();
    IF v_row.epoch <> p_epoch OR v_row.token IS DISTINCT FROM p_token
        OR v_row.lease_until IS NULL OR v_row.lease_until <= v_now
    THEN
        o_outcome := 'lost';
        o_detail := v_row.status || ' at epoch ' || v_row.epoch;
        RETURN;
    END IF;
    UPDATE {schema}.task t
    SET status = 'pending', kept = false, worker = NULL, token = NULL, lease_until = NULL, lease_check_at = NULL,
        ready_at = v_now, wake_on = NULL, wake_key = NULL, wake_missing = 0
    WHERE t.id = p_task_id;
    o_outcome := 'pending';
END
$noeta$;

-- Put back tasks whose lease has lapsed, in every queue. Takes: row locks one by one, SKIP LOCKED. Keeps: bounded.
CREATE FUNCTION {schema}.requeue_stale_1(p_limit int, p_rests bigint[], p_answer_bytes int,
    OUT o_ids text, OUT o_more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $noeta$
DECLARE
    v_now bigint := {schema}.clock();
    v_ids text[] := ARRAY[]::text[];
    v_bytes int := 0;
    v_looked int := 0;
    c record;
    v_row {schema}.task%ROWTYPE;
BEGIN
    o_more := false;
    FOR c IN
        SELECT k.id
        FROM unnest({schema}.queues_1()) AS q (queue)
        CROSS JOIN LATERAL (
            SELECT t.id, t.lease_until FROM {schema}.task t
            WHERE t.queue = q.queue AND t.worker IS NOT NULL AND t.lease_check_at <= v_now
            ORDER BY t.lease_check_at, t.id LIMIT p_limit + 32
        ) k
        ORDER BY k.lease_until, k.id
    LOOP
        v_looked := v_looked + 1;
        IF cardinality(v_ids) = p_limit OR v_bytes > p_answer_bytes THEN
            o_more := true;
            EXIT;
        END IF;
        SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_now := {schema}.clock();
        CONTINUE WHEN v_row.worker IS NULL OR v_row.lease_check_at > v_now;
        IF v_row.lease_until > v_now THEN
            UPDATE {schema}.task t SET lease_check_at = t.lease_until WHERE t.id = v_row.id;
            CONTINUE;
        END IF;
        UPDATE {schema}.task t
        SET status = 'pending', kept = false, worker = NULL, token = NULL, lease_until = NULL, lease_check_at = NULL,
            ready_at = t.lease_until + p_rests[least(t.takeovers + 2, cardinality(p_rests))],
            wake_on = NULL, wake_key = NULL, wake_missing = 0, takeovers = t.takeovers + 1
        WHERE t.id = v_row.id;
        v_ids := v_ids || to_json(v_row.id)::text;
        v_bytes := v_bytes + octet_length(v_ids[cardinality(v_ids)]) + 1;
    END LOOP;
    o_more := o_more OR v_looked >= p_limit + 32;  -- leases moved up or held by others may hide lapsed ones
    o_ids := '[' || array_to_string(v_ids, ',') || ']';
END
$noeta$;

-- Make suspended tasks whose timer is due pending. Takes: row locks one by one, SKIP LOCKED. Keeps: timers-once.
CREATE FUNCTION {schema}.fire_due_timers_1(p_limit int, p_answer_bytes int, OUT o_ids text, OUT o_more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $noeta$
DECLARE
    v_now bigint := {schema}.clock();
    v_ids text[] := ARRAY[]::text[];
    v_bytes int := 0;
    v_inbox bigint;
    c record;
    v_row {schema}.task%ROWTYPE;
BEGIN
    o_more := false;
    FOR c IN
        SELECT t.id FROM {schema}.task t
        WHERE t.status = 'suspended' AND t.worker IS NULL AND t.ready_at <= v_now
        ORDER BY t.ready_at, t.id LIMIT p_limit + 16
    LOOP
        IF cardinality(v_ids) = p_limit OR v_bytes > p_answer_bytes THEN
            o_more := true;
            EXIT;
        END IF;
        SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = c.id FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_now := {schema}.clock();
        CONTINUE WHEN v_row.status <> 'suspended' OR v_row.kept OR v_row.ready_at IS NULL OR v_row.ready_at > v_now;
        v_inbox := {schema}.fire_timer_1(v_row, v_now);
        UPDATE {schema}.task t
        SET status = 'pending', ready_at = v_now, wake_on = NULL, wake_key = NULL, wake_missing = 0,
            inbox_seq = v_inbox
        WHERE t.id = v_row.id;
        v_ids := v_ids || to_json(v_row.id)::text;
        v_bytes := v_bytes + octet_length(v_ids[cardinality(v_ids)]) + 1;
    END LOOP;
    o_ids := '[' || array_to_string(v_ids, ',') || ']';
END
$noeta$;
