-- append_2, fail_2, cancel_1, renew_2: what ends a task, what its family hears of it, and how a running step hears.
-- enable_seqscan off: a session keeps the plan it made while a table was small, until the next ANALYZE.

-- The unfinished tasks of a parent. Keeps: children-once.
CREATE INDEX task_parent ON {schema}.task (parent, id) WHERE parent IS NOT NULL AND status <> 'terminal';
-- Orders that nobody has taken yet: looked for by every renewal, and rarely there.
CREATE INDEX item_order ON {schema}.item (task_id)
    WHERE wake_key = 'control' AND taken_seq IS NULL AND unread_seq IS NULL;

-- Lock these tasks and the unfinished children of p_parent, in one statement, in id order. False: a child was born while
-- this waited, so that the caller gives everything back and starts again (children are born under a lock held here).
CREATE FUNCTION {schema}.lock_family_1(p_ids text[], p_parent text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_children text[];
BEGIN
    SELECT coalesce(array_agg(t.id), ARRAY[]::text[]) INTO v_children
    FROM {schema}.task t WHERE t.parent = p_parent AND t.status <> 'terminal';
    PERFORM 1 FROM {schema}.task t WHERE t.id = ANY (p_ids || v_children) ORDER BY t.id FOR UPDATE;
    PERFORM 1 FROM {schema}.task t
    WHERE t.parent = p_parent AND t.status <> 'terminal' AND t.id <> ALL (v_children);
    RETURN NOT FOUND;
END
$noeta$;

-- Order one task to end, under a key of its own; it need not rest before it hears. The caller holds the row lock.
CREATE FUNCTION {schema}.order_1(p_task_id text, p_key text, p_body text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_now bigint := {schema}.clock();
    v_outcome text;
BEGIN
    SELECT p.o_outcome INTO v_outcome FROM {schema}.post_1(p_task_id, p_key, p_body, 'control', NULL) p;
    IF v_outcome = 'stored' THEN
        UPDATE {schema}.task t SET ready_at = v_now
        WHERE t.id = p_task_id AND t.status = 'pending' AND t.ready_at > v_now;
    END IF;
END
$noeta$;

-- Order every unfinished child of a task that has ended to end. The caller holds the row locks (lock_family_1).
CREATE FUNCTION {schema}.order_children_1(p_parent text, p_key text, p_body text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $noeta$
DECLARE
    v_id text;
BEGIN
    FOR v_id IN
        SELECT t.id FROM {schema}.task t WHERE t.parent = p_parent AND t.status <> 'terminal' ORDER BY t.id
    LOOP
        PERFORM {schema}.order_1(v_id, p_key, p_body);
    END LOOP;
END
$noeta$;

-- append_1 for a commit that concerns the family: one that ends the task, or whose children belong to a task above it.
-- Keeps: one-writer, children-once, terminal-is-final, never-stuck.
-- Takes: the row locks of the task, of every post's task, of the children's parents, and, if it ends the task, of its
-- unfinished children, in one statement, in id order.
-- Outcomes: as append_1, and again (nothing was written: start anew). p_child_parent: whose children they are.
-- p_order_key, p_order_body: what every unfinished child of an ended task gets.
CREATE FUNCTION {schema}.append_2(p_task_id text, p_epoch bigint, p_token text, p_expected_seq bigint,
    p_bodies text[], p_ending text, p_takes bigint[], p_take_at bigint[], p_inbox_seen bigint,
    p_target {schema}.target_1, p_target_moved {schema}.target_1, p_resets_failures boolean,
    p_post_task text[], p_post_key text[], p_post_body text[], p_post_wake text[], p_post_group text[],
    p_post_with_ending boolean[],
    p_child_id text[], p_child_queue text[], p_child_body text[], p_child_hash text[], p_child_ready_in bigint[],
    p_child_group text[],
    p_content_hash text[], p_content_type text[], p_content_body bytea[],
    p_child_parent text[], p_order_key text, p_order_body text,
    OUT o_outcome text, OUT o_detail text, OUT o_last_seq bigint, OUT o_at bigint, OUT o_status text,
    OUT o_moved boolean, OUT o_inbox_seq bigint, OUT o_refused text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $noeta$
DECLARE
    v_parent_lives boolean;
BEGIN
    IF NOT {schema}.lock_family_1(
        p_post_task || p_child_parent || p_task_id, CASE WHEN p_ending IS NOT NULL THEN p_task_id END
    ) THEN
        o_outcome := 'again';
        RETURN;
    END IF;
    SELECT a.o_outcome, a.o_detail, a.o_last_seq, a.o_at, a.o_status, a.o_moved, a.o_inbox_seq, a.o_refused
    INTO o_outcome, o_detail, o_last_seq, o_at, o_status, o_moved, o_inbox_seq, o_refused
    FROM {schema}.append_1(p_task_id, p_epoch, p_token, p_expected_seq, p_bodies, p_ending, p_takes, p_take_at,
        p_inbox_seen, p_target, p_target_moved, p_resets_failures, p_post_task, p_post_key, p_post_body, p_post_wake,
        p_post_group, p_post_with_ending, p_child_id, p_child_queue, p_child_body, p_child_hash, p_child_ready_in,
        p_child_group, p_content_hash, p_content_type, p_content_body) a;
    IF o_outcome <> 'landed' THEN
        RETURN;
    END IF;
    FOR i IN 1..cardinality(p_child_id) LOOP
        CONTINUE WHEN p_child_parent[i] = p_task_id;
        UPDATE {schema}.task t SET parent = p_child_parent[i] WHERE t.id = p_child_id[i] AND t.parent = p_task_id;
        CONTINUE WHEN NOT FOUND;  -- a repeat: it was born before
        -- Written, and not only locked: whoever ends it from a snapshot that does not show this child must be refused.
        UPDATE {schema}.task t SET inbox_seq = t.inbox_seq WHERE t.id = p_child_parent[i]
        RETURNING t.status <> 'terminal' INTO v_parent_lives;
        IF v_parent_lives IS NOT TRUE THEN  -- Keeps: never-stuck
            PERFORM {schema}.order_1(p_child_id[i], p_order_key, p_order_body);
        END IF;
    END LOOP;
    IF p_ending IS NOT NULL AND o_status = 'terminal' THEN  -- Keeps: children-once
        PERFORM {schema}.order_children_1(p_task_id, p_order_key, p_order_body);
    END IF;
END
$noeta$;

-- fail_1, and the children hear of an end. Takes: the row locks of the task, its parent and its unfinished children, in
-- one statement, in id order. Keeps: one-writer, bounded, children-once. Outcomes: as fail_1, and again.
CREATE FUNCTION {schema}.fail_2(p_task_id text, p_epoch bigint, p_token text, p_retryable boolean, p_attempts_max bigint,
    p_rests bigint[], p_ending text, p_parent text, p_result_key text, p_result_body text, p_result_wake text,
    p_result_group text, p_order_key text, p_order_body text,
    OUT o_outcome text, OUT o_detail text, OUT o_fail_attempts bigint, OUT o_last_seq bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $noeta$
BEGIN
    IF NOT {schema}.lock_family_1(ARRAY[p_task_id, p_parent], p_task_id) THEN
        o_outcome := 'again';
        RETURN;
    END IF;
    SELECT f.o_outcome, f.o_detail, f.o_fail_attempts, f.o_last_seq
    INTO o_outcome, o_detail, o_fail_attempts, o_last_seq
    FROM {schema}.fail_1(p_task_id, p_epoch, p_token, p_retryable, p_attempts_max, p_rests, p_ending, p_parent,
        p_result_key, p_result_body, p_result_wake, p_result_group) f;
    IF o_outcome = 'terminal' THEN
        PERFORM {schema}.order_children_1(p_task_id, p_order_key, p_order_body);
    END IF;
END
$noeta$;

-- Post a cancel. A task that nobody runs ends in this transaction: its epoch rises, the terminal entry is written, what
-- it leaves unread is stamped, its parent is told and its children are ordered to end. A running one gets the item.
-- Takes: the row locks of the task, its parent and its unfinished children, in one statement, in id order.
-- Keeps: terminal-is-final, epochs-rise, children-once, taken-once.
-- Outcomes: as post_1; cancelled; kin (its parent is o_detail and its group o_group, and not p_parent: say so and ask
-- again; they never change); again. Only stored and cancelled have written anything.
CREATE FUNCTION {schema}.cancel_1(p_task_id text, p_key text, p_body text, p_ending text, p_parent text,
    p_result_key text, p_result_body text, p_result_wake text, p_result_group text, p_order_key text, p_order_body text,
    OUT o_outcome text, OUT o_number bigint, OUT o_made_ready boolean, OUT o_epoch bigint, OUT o_last_seq bigint,
    OUT o_detail text, OUT o_group text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $noeta$
DECLARE
    v_row {schema}.task%ROWTYPE;
    v_now bigint;
BEGIN
    o_made_ready := false;
    IF NOT {schema}.lock_family_1(ARRAY[p_task_id, p_parent], p_task_id) THEN
        o_outcome := 'again';
        RETURN;
    END IF;
    SELECT t.* INTO v_row FROM {schema}.task t WHERE t.id = p_task_id FOR UPDATE;
    IF NOT FOUND THEN
        o_outcome := 'unknown';
        RETURN;
    END IF;
    IF v_row.parent IS DISTINCT FROM p_parent THEN
        o_outcome := 'kin';
        o_detail := v_row.parent;
        o_group := v_row.group_id;
        RETURN;
    END IF;
    v_now := {schema}.clock();
    PERFORM 1 FROM {schema}.item i WHERE i.task_id = p_task_id AND i.key = p_key;
    IF FOUND OR v_row.status = 'terminal' OR v_row.lease_until > v_now THEN
        SELECT p.o_outcome, p.o_number, p.o_made_ready INTO o_outcome, o_number, o_made_ready
        FROM {schema}.post_1(p_task_id, p_key, p_body, 'control', NULL) p;
        RETURN;
    END IF;
    o_outcome := 'cancelled';
    o_epoch := v_row.epoch + 1;
    o_last_seq := v_row.last_seq + 1;
    o_number := v_row.inbox_seq + 1;
    INSERT INTO {schema}.item (task_id, number, key, wake_key, body, at)
    VALUES (p_task_id, o_number, p_key, 'control', p_body::json, v_now);
    INSERT INTO {schema}.entry (task_id, seq, epoch, at, body)
    VALUES (p_task_id, o_last_seq, o_epoch, v_now, p_ending::json);
    UPDATE {schema}.item i SET unread_seq = o_last_seq
    WHERE i.task_id = p_task_id AND i.taken_seq IS NULL AND i.unread_seq IS NULL;
    UPDATE {schema}.task t
    SET status = 'terminal', kept = false, epoch = o_epoch, worker = NULL, token = NULL, lease_until = NULL,
        lease_check_at = NULL, ready_at = NULL, wake_on = NULL, wake_key = NULL, wake_missing = 0,
        inbox_seq = o_number, last_seq = o_last_seq, takeovers = 0
    WHERE t.id = p_task_id;
    IF p_parent IS NOT NULL THEN  -- Keeps: children-once
        PERFORM 1 FROM {schema}.post_1(p_parent, p_result_key, p_result_body, p_result_wake, p_result_group);
    END IF;
    PERFORM {schema}.order_children_1(p_task_id, p_order_key, p_order_body);
END
$noeta$;

-- renew_1, and which of these tasks have an order in their inbox that nobody has taken: how a running step hears of it.
-- Takes: row locks, SKIP LOCKED; the look at the inboxes takes none. Keeps: one-writer.
CREATE FUNCTION {schema}.renew_2(p_ids text[], p_epochs bigint[], p_tokens text[], p_lease bigint,
    OUT o_now bigint, OUT o_answers text, OUT o_ordered text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $noeta$
BEGIN
    SELECT r.o_now, r.o_answers INTO o_now, o_answers FROM {schema}.renew_1(p_ids, p_epochs, p_tokens, p_lease) r;
    SELECT coalesce(json_agg(k.place - 1)::text, '[]') INTO o_ordered
    FROM unnest(p_ids) WITH ORDINALITY AS k (id, place)
    -- LIMIT: one probe a task. A join, planned while the table was small, would read every unread item there is.
    CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.item i
        WHERE i.task_id = k.id AND i.wake_key = 'control' AND i.taken_seq IS NULL AND i.unread_seq IS NULL
        LIMIT 1
    ) o;
END
$noeta$;
