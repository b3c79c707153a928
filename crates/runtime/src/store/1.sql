-- How far the journal is in the tables below.
CREATE TABLE journal (
  file TEXT NOT NULL,
  position BLOB NOT NULL
);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  effort TEXT NOT NULL,
  max_loops INTEGER NOT NULL,
  base TEXT NOT NULL,
  planned INTEGER NOT NULL,        -- 1 where the user gave the plan
  status TEXT NOT NULL,
  reason TEXT,
  started_at TEXT NOT NULL,
  finished_at TEXT
);

CREATE TABLE tasks (
  run_id TEXT NOT NULL,
  id TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  acceptance TEXT,
  PRIMARY KEY (run_id, id),
  FOREIGN KEY (run_id) REFERENCES runs(id)
);

-- A row for each task of each group. Groups are counted from 1.
CREATE TABLE plan_groups (
  run_id TEXT NOT NULL,
  group_number INTEGER NOT NULL,
  task_id TEXT NOT NULL,
  PRIMARY KEY (run_id, group_number, task_id),
  FOREIGN KEY (run_id) REFERENCES runs(id)
);

CREATE TABLE loops (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  group_number INTEGER NOT NULL,
  branch TEXT NOT NULL,
  worktree TEXT NOT NULL,
  base TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT,                     -- why it is stuck or failed
  iteration INTEGER NOT NULL,
  FOREIGN KEY (run_id) REFERENCES runs(id)
);

CREATE TABLE review_issues (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  task_id TEXT,
  file TEXT,
  line INTEGER,
  type TEXT,
  description TEXT,
  suggestion TEXT,
  FOREIGN KEY (run_id) REFERENCES runs(id)
);

-- What a turn of an agent cost, by its client, and what the agent reported itself.
CREATE TABLE costs (
  run_id TEXT NOT NULL,
  turn INTEGER,                    -- null for one that was interrupted
  number INTEGER NOT NULL,         -- counted from 1 in the turn
  loop_id TEXT,
  task_id TEXT,
  phase TEXT NOT NULL,
  model TEXT,
  cost_usd REAL,
  tokens INTEGER,
  what TEXT,                       -- where the agent reported it
  at TEXT NOT NULL,
  PRIMARY KEY (run_id, turn, number),
  FOREIGN KEY (run_id) REFERENCES runs(id)
);
