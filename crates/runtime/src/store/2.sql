CREATE TABLE loop_reviews (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  loop_id TEXT NOT NULL,
  task_id TEXT,                    -- which task was reviewed (null for checkpoint reviews)
  passed INTEGER NOT NULL,         -- 0 or 1
  interpreted_intent TEXT,
  intent_satisfied INTEGER,        -- 0, 1, or null
  reviewed_at TEXT NOT NULL,       -- ISO timestamp
  cost_usd REAL DEFAULT 0,
  FOREIGN KEY (run_id) REFERENCES runs(id),
  FOREIGN KEY (loop_id) REFERENCES loops(id)
);

ALTER TABLE review_issues ADD COLUMN loop_id TEXT;
ALTER TABLE review_issues ADD COLUMN loop_review_id TEXT;

ALTER TABLE loops ADD COLUMN review_status TEXT NOT NULL DEFAULT 'pending'
  CHECK (review_status IN ('pending', 'in_progress', 'passed', 'failed'));
ALTER TABLE loops ADD COLUMN last_review_id TEXT;
ALTER TABLE loops ADD COLUMN revision_attempts INTEGER NOT NULL DEFAULT 0;
-- The iteration of the last checkpoint.
ALTER TABLE loops ADD COLUMN last_checkpoint_review_at INTEGER NOT NULL DEFAULT 0;
