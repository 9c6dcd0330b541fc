-- What is looked for when a task ends, and with every renewal.

-- The unfinished tasks of a parent. Keeps: children-once.
CREATE INDEX {schema}.task_parent ON task (parent, id) WHERE parent IS NOT NULL AND status <> 'terminal';
-- Orders that nobody has taken yet: looked for by every renewal, and rarely there.
CREATE INDEX {schema}.item_order ON item (task_id)
    WHERE wake_key = 'control' AND taken_seq IS NULL AND unread_seq IS NULL;

PRAGMA {schema}.user_version = 2;
