"""Label joins: rows that wait for labels, labels that wait for rows, and requests learned once, by id and on disk.

All of it is stored in the log's database and changes in the log's transactions, so it always agrees with the log; only
counts are kept in memory.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayou.serve.log import PendingEntry

# Kinds of log entries.
LEARN, KIND_ROW, LABEL, KIND_EXPIRE = range(4)
# States of an id.
PENDING, JOINED, EXPIRED, EARLY = range(4)
# Outcomes of a label.
OUTCOMES = ("joined", "duplicate", "early", "unknown", "late")
LABEL_WAIT_SECONDS = 7 * 86400.0
MAX_PENDING_ROWS, MAX_EARLY_LABELS = 10_000_000, 1_000_000
# Maximum number of ids closed in one step.
EXPIRE_BATCH_ROWS = 1000


class LabelJoins:
    """Joins of rows and labels by id, and requests already learned.

    Attributes:
        n_pending, n_early: the numbers of rows that wait for a label, and of labels that wait for a row.
        counts: the outcomes of labels and rows since the start, by name.
        wait: seconds that rows wait for labels, that labels wait for rows, and that closed ids are kept.
        default: the label, as JSON, of rows whose label does not arrive; None if they are not learned.
        most_open, most_early: the maximum numbers of rows and labels that wait.
        delays, delayed: seconds from row to label of recently joined labels; number of those since the start.
    """

    SCHEMA = """
    CREATE TABLE ids (id TEXT PRIMARY KEY, n INTEGER NOT NULL, at REAL NOT NULL, state INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX ids_by_time ON ids (state, at);
    CREATE TABLE requests (key TEXT PRIMARY KEY, n INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
    CREATE INDEX requests_by_time ON requests (at);
    """

    def __init__(self, db: sqlite3.Connection, body_of: Callable[[int, str | None], tuple[int, bytes]]) -> None:
        self._db, self._body_of = db, body_of
        self.counts: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()  # of the current transaction
        self.delays: list[float] = []
        self._delays: list[float] = []
        self.delayed = 0
        self.wait = LABEL_WAIT_SECONDS
        self.default: bytes | None = None
        self.most_open, self.most_early = MAX_PENDING_ROWS, MAX_EARLY_LABELS
        counts = dict(db.execute("SELECT state, count(*) FROM ids GROUP BY state").fetchall())
        self.n_pending, self.n_early = counts.get(PENDING, 0), counts.get(EARLY, 0)
        self._committed = self.n_pending, self.n_early
        self._oldest: float | None = None
        self._look_at_oldest()

    def apply(self, item: PendingEntry, n: int, now: float) -> Any:
        """Apply an item that would be entry n; return the entry that it joins, None, or False if it changes nothing.

        Sets the item's outcome, and the rows to learn because of it.
        """
        if item.kind == LEARN:
            joins = None if item.key is None else self._deduplicate_request(item, n, now)
            if joins is None:
                self._close_ids(item.labeled_ids, now)
            return joins
        if item.kind == KIND_ROW:
            return self._row(item, n, now)
        return self._label(item, n, now) if item.kind == LABEL else self._expire(item, now)

    def _deduplicate_request(self, item: PendingEntry, n: int, now: float) -> Any:
        """Return False if a request was learned already."""
        entry = self._db.execute("SELECT n FROM requests WHERE key = ?", (item.key,)).fetchone()
        if entry is not None:
            item.outcome, item.sequence = "duplicate", entry[0]
            self._counts["request duplicate"] += 1
            return False
        self._db.execute("INSERT INTO requests VALUES (?, ?, ?)", (item.key, n, now))
        return None

    def _close_ids(self, keys: Sequence[str], now: float) -> None:
        """Close ids whose rows are now learned with their labels."""
        for key in keys if self.n_pending or self.n_early else ():  # often nothing waits
            record = self._db.execute("SELECT at, state FROM ids WHERE id = ?", (key,)).fetchone()
            if record is None or record[1] not in (PENDING, EARLY):
                continue
            self._close(key, now, JOINED)
            self._counts["joined"] += 1
            if record[1] == PENDING:
                self.n_pending -= 1
                self._delays.append(now - record[0])
            else:
                self.n_early -= 1

    def _row(self, item: PendingEntry, n: int, now: float) -> Any:
        """Store a row that was predicted, or join the label that came before it."""
        record = self._db.execute("SELECT n, state FROM ids WHERE id = ?", (item.key,)).fetchone()
        if record is None:
            self._db.execute("INSERT INTO ids VALUES (?, ?, ?, ?)", (item.key, n, now, PENDING))
            self.n_pending += 1
            item.outcome = "remembered"
            return None
        if record[1] != EARLY:
            item.outcome = "known"  # the label of an id is for the first row under that id
            self._counts["row known"] += 1
            return False
        self._close(item.key, now, JOINED)
        self.n_early -= 1
        self._counts["joined"] += 1
        item.outcome, item.rows_to_learn = "joined", [(item.form, item.body, self._body_of(record[0], item.key)[1])]
        return record[0]

    def _label(self, item: PendingEntry, n: int, now: float) -> Any:
        record = self._db.execute("SELECT n, at, state FROM ids WHERE id = ?", (item.key,)).fetchone()
        if record is not None and record[2] == PENDING:
            item.outcome = "joined"
            item.rows_to_learn = [(*self._body_of(record[0], item.key), item.body)]
            self._close(item.key, now, JOINED)
            self.n_pending -= 1
            self._delays.append(now - record[1])
        elif record is not None:
            item.outcome = {JOINED: "duplicate", EXPIRED: "late", EARLY: "duplicate"}[record[2]]
        elif self.n_early < self.most_early:
            item.outcome = "early"
            self._db.execute("INSERT INTO ids VALUES (?, ?, ?, ?)", (item.key, n, now, EARLY))
            self.n_early += 1
        else:
            item.outcome = "unknown"
        self._counts[item.outcome] += 1
        if item.outcome == "joined":
            return record[0]
        return None if item.outcome == "early" else False

    def _close(self, key: str | None, now: float, state: int) -> None:
        self._db.execute("UPDATE ids SET state = ?, at = ? WHERE id = ?", (state, now, key))

    def _expire(self, item: PendingEntry, now: float) -> Any:
        """Close some expired ids; pending rows get the default label, if there is one.

        Ids closed that long ago are deleted, and only the newest `most_open` pending rows are kept.
        """
        db, deadline = self._db, now - self.wait
        condition = "WHERE state = ? AND at < ? ORDER BY at LIMIT ?"
        for state in (JOINED, EXPIRED):
            self._delete(condition, state, deadline, EXPIRE_BATCH_ROWS)
        n_early = self._delete(condition, EARLY, deadline, EXPIRE_BATCH_ROWS)
        self.n_early -= n_early
        self._counts["unknown"] += n_early
        db.execute(
            "DELETE FROM requests WHERE key IN (SELECT key FROM requests WHERE at < ? LIMIT ?)",
            (deadline, EXPIRE_BATCH_ROWS),
        )
        expired = db.execute(f"SELECT id, n FROM ids {condition}", (PENDING, deadline, EXPIRE_BATCH_ROWS)).fetchall()
        for key, _ in expired:
            self._close(key, now, EXPIRED)
        self.n_pending -= len(expired)
        self._counts["expired"] += len(expired)
        if self.n_pending > self.most_open:
            excess = min(self.n_pending - self.most_open, 100 * EXPIRE_BATCH_ROWS)
            n_dropped = self._delete("WHERE state = ? ORDER BY at LIMIT ?", PENDING, excess)
            self.n_pending -= n_dropped
            self._counts["dropped"] += n_dropped
        if self.default is None or not expired:
            return False
        item.body = b"%s\n%s" % (self.default, b",".join(b"%d" % n for _, n in expired))
        item.rows_to_learn = [(*self._body_of(n, key), self.default) for key, n in expired]
        return None

    def _delete(self, condition: str, *values: float) -> int:
        """Delete some ids, and return how many."""
        return self._db.execute(f"DELETE FROM ids WHERE id IN (SELECT id FROM ids {condition})", values).rowcount

    def has_expired(self, now: float) -> bool:
        """Return whether some ids have expired."""
        if self.n_pending > self.most_open:
            return True
        self._look_at_oldest()
        deadline = now - self.wait
        tables = [*(f"ids WHERE state = {state} AND" for state in range(4)), "requests WHERE"]
        query = " OR ".join(f"EXISTS (SELECT 1 FROM {table} at < ?)" for table in tables)
        return bool(self._db.execute(f"SELECT {query}", (deadline,) * 5).fetchone()[0])

    def oldest_pending(self) -> float | None:
        """Return the unix time of the oldest row that waits for its label, as of the last check; None if there is none.

        Thread-safe; the log's thread updates it about once a second.
        """
        return self._oldest if self.n_pending else None

    def _look_at_oldest(self) -> None:
        if self.n_pending:
            self._oldest = self._db.execute("SELECT min(at) FROM ids WHERE state = ?", (PENDING,)).fetchone()[0]

    def delay_quantiles(self) -> dict[int, float]:
        """Return the 50, 90 and 99% quantiles of recent delays from row to label, in seconds; empty without any."""
        delays = sorted(self.delays)
        return {percent: delays[int(percent / 100 * (len(delays) - 1))] for percent in (50, 90, 99)} if delays else {}

    def on_commit(self) -> None:
        """Commit the counts of the transaction, which is on disk."""
        self._committed = self.n_pending, self.n_early
        self.counts += self._counts
        self._counts.clear()
        if self._delays:
            self.delays = (self.delays + self._delays)[-10_000:]
            self.delayed += len(self._delays)
            self._delays = []

    def on_rollback(self) -> None:
        """Discard the counts of the transaction: it was rolled back."""
        self.n_pending, self.n_early = self._committed
        self._counts.clear()
        self._delays = []
