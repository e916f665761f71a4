//! The index: a row of `run` for each run and bake-off after all its files are stored.

use std::time::Duration;

use archive::{Parcel, ParcelFile, Shelf, check_parcel_files};
use record::run::RunId;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Transaction};

use crate::error::SharedError;
use crate::location::IndexPlace;
use crate::tls::Tls;
use crate::{plain, secret};

/// Changes of the tables, oldest first; the version of the tables is the number of changes that they have.
/// A published change is never edited.
const MIGRATIONS: [&str; 3] = [
    "
CREATE TABLE run (
    id              text PRIMARY KEY,
    shelf           text NOT NULL CHECK (shelf IN ('runs', 'bakeoffs')),
    kind            text NOT NULL,
    state           text NOT NULL,
    reason          text,
    started_unix_ns bigint NOT NULL,
    started_monotonic_ns bigint NOT NULL,
    title           text NOT NULL,
    bakeoff         text,
    tool_version    text NOT NULL,
    command         text NOT NULL,
    sha256          text NOT NULL,
    bytes           bigint NOT NULL,
    pushed_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX run_by_bakeoff ON run (bakeoff);
CREATE TABLE label (
    run   text NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name  text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (run, name)
);
CREATE TABLE file (
    run    text NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name   text NOT NULL,
    bytes  bigint NOT NULL,
    sha256 text NOT NULL,
    PRIMARY KEY (run, name)
);
",
    "
ALTER TABLE bakeoff_archive
    ADD COLUMN archive  text NOT NULL DEFAULT gen_random_uuid()::text,
    ADD COLUMN is_bound boolean NOT NULL DEFAULT false;
",
    "
CREATE TABLE removed (
    id         text PRIMARY KEY,
    shelf      text NOT NULL CHECK (shelf IN ('runs', 'bakeoffs')),
    has_files  boolean NOT NULL DEFAULT true,
    removed_at timestamptz NOT NULL DEFAULT now()
);
",
];
/// Key of the lock that one migration holds: the letters `bakeoffa`.
const MIGRATION_LOCK: i64 = 0x6261_6b65_6f66_6661;
/// Rows in one answer.
const PAGE: i64 = 10_000;
/// Largest number of rows that a pull or a prune reads.
const ROWS_MAX: usize = 1_000_000;

/// An open index.
#[derive(Debug)]
pub(crate) struct Index {
    client: Client,
}

/// A row of `run`, as far as a pull needs it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: RunId,
    pub(crate) shelf: Shelf,
    pub(crate) sha256: String,
    pub(crate) bakeoff: Option<RunId>,
}

/// Runs that a prune removes.
#[derive(Debug, Clone)]
pub struct Retention {
    /// Age from which a run is old: the time since its push. A bake-off and its runs are as old as the part
    /// that was pushed last.
    pub age: Duration,
    /// Labels that keep a run, or a bake-off with such a run: the name, and the value if only that one does.
    pub keep: Vec<(String, Option<String>)>,
}

/// A run, or a bake-off with its runs, that is old.
#[derive(Debug, Clone)]
pub struct Old {
    /// Run or bake-off.
    pub id: RunId,
    /// Day of the last push, in UTC.
    pub pushed: String,
    /// Number of runs and bake-offs.
    pub rows: u64,
    /// Sum of the file sizes.
    pub bytes: u64,
    /// Title, which may contain anything.
    pub title: String,
}

/// The archive's id while this process binds the index to a store; other processes wait.
pub(crate) struct Binding<'index> {
    tx: Transaction<'index>,
    pub(crate) id: String,
    pub(crate) is_bound: bool,
}

impl Binding<'_> {
    pub(crate) async fn finish(self) -> Result<(), SharedError> {
        self.tx.execute("UPDATE bakeoff_archive SET is_bound = true", &[]).await?;
        Ok(self.tx.commit().await?)
    }
}

impl Index {
    pub(crate) async fn connect(place: &IndexPlace) -> Result<Self, SharedError> {
        let mut config = place.config.clone();
        config.connect_timeout(Duration::from_secs(10)).application_name("bakeoff");
        // A server that no longer answers ends a push within a minute.
        config.tcp_user_timeout(Duration::from_mins(1)).options("-c statement_timeout=60000");
        if let Some(password) = secret::of("PGPASSWORD")? {
            config.password(password);
        }
        let client = if place.has_tls {
            let (client, connection) = config.connect(Tls::new(place.ca.as_deref())?).await?;
            tokio::spawn(connection);
            client
        } else {
            plain::connect(&config).await?
        };
        Ok(Self { client })
    }

    pub(crate) async fn check_version(&self) -> Result<(), SharedError> {
        let known = known();
        match self.version().await? {
            0 => Err(SharedError::NoTables),
            found if found < known => Err(SharedError::Older { found, known }),
            found if found > known => Err(SharedError::Newer { found, known }),
            _ => Ok(()),
        }
    }

    async fn version(&self) -> Result<i32, SharedError> {
        match self.client.query_opt("SELECT version FROM bakeoff_archive", &[]).await {
            Ok(row) => Ok(row.map_or(0, |row| row.get(0))),
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn migrate(&mut self) -> Result<(i32, i32), SharedError> {
        let known = known();
        let tx = self.client.transaction().await?;
        tx.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
        tx.batch_execute("CREATE TABLE IF NOT EXISTS bakeoff_archive (version integer NOT NULL)").await?;
        let row = tx.query_opt("SELECT version FROM bakeoff_archive", &[]).await?;
        let found: i32 = row.as_ref().map_or(0, |row| row.get(0));
        if row.is_none() {
            tx.execute("INSERT INTO bakeoff_archive VALUES (0)", &[]).await?;
        }
        if found > known {
            return Err(SharedError::Newer { found, known });
        }
        for change in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            tx.batch_execute(change).await?;
        }
        tx.execute("UPDATE bakeoff_archive SET version = $1", &[&known]).await?;
        tx.commit().await?;
        Ok((found, known))
    }

    /// The archive's id, and whether a store has it too.
    pub(crate) async fn archive(&self) -> Result<(String, bool), SharedError> {
        let row =
            self.client.query_one("SELECT left(archive, 64), is_bound FROM bakeoff_archive", &[]).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    pub(crate) async fn begin_binding(&mut self) -> Result<Binding<'_>, SharedError> {
        let tx = self.client.transaction().await?;
        let row =
            tx.query_one("SELECT left(archive, 64), is_bound FROM bakeoff_archive FOR UPDATE", &[]).await?;
        Ok(Binding { id: row.try_get(0)?, is_bound: row.try_get(1)?, tx })
    }

    /// The newest row.
    pub(crate) async fn last_row(&self) -> Result<Option<Row>, SharedError> {
        let sql = "SELECT id, left(shelf, 9), left(sha256, 65), left(bakeoff, 27) FROM run
                   WHERE length(id) <= 200 ORDER BY pushed_at DESC LIMIT 1";
        Ok(self.client.query_opt(sql, &[]).await?.as_ref().and_then(read_row))
    }

    /// Checksum in the row of `id`.
    pub(crate) async fn sum_of(&self, id: RunId) -> Result<Option<String>, SharedError> {
        let row = self
            .client
            .query_opt("SELECT left(sha256, 65) FROM run WHERE id = $1", &[&id.to_string()])
            .await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Adds the row of a run after its files are stored, with its labels and files, unless another process
    /// did; returns the checksum in the row, or `None` if a prune has removed the run.
    pub(crate) async fn add(&mut self, parcel: &Parcel) -> Result<Option<String>, SharedError> {
        let header = &parcel.header;
        let id = header.id.to_string();
        let bytes: u64 = parcel.files.iter().map(|file| file.bytes).sum();
        let (unix_ns, monotonic_ns) =
            (header.anchor.unix_ns.cast_signed(), header.anchor.monotonic_ns.cast_signed());
        let bakeoff = header.bakeoff.map(|id| id.to_string());
        let (title, command) = (storable(&header.title), storable(&header.command));
        let (reason, version) = (header.reason.as_deref().map(storable), storable(&header.tool_version));
        let tx = self.client.transaction().await?;
        let added = tx
            .execute(
                "INSERT INTO run (id, shelf, kind, state, reason, started_unix_ns, started_monotonic_ns,
                     title, bakeoff, tool_version, command, sha256, bytes)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING",
                &[
                    &id,
                    &parcel.shelf.word(),
                    &header.kind.word(),
                    &header.state.word(),
                    &reason,
                    &unix_ns,
                    &monotonic_ns,
                    &title,
                    &bakeoff,
                    &version,
                    &command,
                    &parcel.sha256,
                    &bytes.cast_signed(),
                ],
            )
            .await?;
        if added == 0 {
            let row = tx.query_one("SELECT left(sha256, 65) FROM run WHERE id = $1", &[&id]).await?;
            return Ok(Some(row.get(0)));
        }
        // After the insert: a prune that it has waited for has ended.
        if is_removed(&tx, header.id, header.bakeoff).await? {
            tx.rollback().await?;
            self.note_files(parcel).await?;
            return Ok(None);
        }
        let (names, values): (Vec<String>, Vec<String>) =
            header.labels.iter().map(|(name, value)| (storable(name), storable(value))).unzip();
        tx.execute(
            "INSERT INTO label SELECT $1, * FROM unnest($2::text[], $3::text[]) ON CONFLICT DO NOTHING",
            &[&id, &names, &values],
        )
        .await?;
        add_files(&tx, parcel).await?;
        tx.commit().await?;
        Ok(Some(parcel.sha256.clone()))
    }

    /// Replaces the state of a bake-off after the files of its new state are stored; returns `false` if the
    /// row no longer has the checksum `earlier`.
    pub(crate) async fn continue_with(
        &mut self,
        parcel: &Parcel,
        earlier: &str,
    ) -> Result<bool, SharedError> {
        let id = parcel.header.id.to_string();
        let reason = parcel.header.reason.as_deref().map(storable);
        let bytes: u64 = parcel.files.iter().map(|file| file.bytes).sum();
        let tx = self.client.transaction().await?;
        let changed = tx
            .execute(
                "UPDATE run SET state = $3, reason = $4, sha256 = $5, bytes = $6, pushed_at = now()
                 WHERE id = $1 AND sha256 = $2",
                &[&id, &earlier, &parcel.header.state.word(), &reason, &parcel.sha256, &bytes.cast_signed()],
            )
            .await?;
        if changed == 0 {
            return Ok(false);
        }
        tx.execute("DELETE FROM file WHERE run = $1", &[&id]).await?;
        add_files(&tx, parcel).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Whether a prune has removed the run, or the bake-off that it belongs to.
    pub(crate) async fn is_removed(&self, id: RunId, bakeoff: Option<RunId>) -> Result<bool, SharedError> {
        is_removed(&self.client, id, bakeoff).await
    }

    /// Notes that the store has files of a removed run: this process began to push it before it was removed.
    pub(crate) async fn note_files(&self, parcel: &Parcel) -> Result<(), SharedError> {
        let sql =
            "INSERT INTO removed (id, shelf) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET has_files = true";
        self.client.execute(sql, &[&parcel.header.id.to_string(), &parcel.shelf.word()]).await?;
        Ok(())
    }

    /// Old runs and bake-offs, the oldest first.
    pub(crate) async fn old(&self, retention: &Retention) -> Result<Vec<Old>, SharedError> {
        let (names, values): (Vec<&str>, Vec<Option<&str>>) =
            retention.keep.iter().map(|(name, value)| (name.as_str(), value.as_deref())).unzip();
        let most = i64::try_from(ROWS_MAX).expect("a small number");
        let rows = self
            .client
            .query(
                "SELECT left(COALESCE(bakeoff, id), 27), to_char(max(pushed_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
                     count(*), sum(bytes)::bigint,
                     left(COALESCE(max(title) FILTER (WHERE id = COALESCE(bakeoff, id)), max(title)), 200)
                 FROM run GROUP BY COALESCE(bakeoff, id)
                 HAVING max(pushed_at) < now() - make_interval(secs => $1::float8)
                     AND NOT bool_or(EXISTS (
                         SELECT FROM label JOIN unnest($2::text[], $3::text[]) AS kept (name, value)
                             ON label.name = kept.name AND COALESCE(label.value = kept.value, true)
                         WHERE label.run = run.id))
                 ORDER BY max(pushed_at), 1 LIMIT $4",
                &[&retention.age.as_secs_f64(), &names, &values, &most],
            )
            .await?;
        let old = rows.iter().filter_map(|row| {
            Some(Old {
                id: run_id(row.try_get(0).ok()?)?,
                pushed: row.try_get(1).ok()?,
                rows: row.try_get::<_, i64>(2).ok()?.cast_unsigned(),
                bytes: row.try_get::<_, i64>(3).ok()?.cast_unsigned(),
                title: row.try_get(4).ok()?,
            })
        });
        Ok(old.collect())
    }

    /// Removes the rows of an old run, or of an old bake-off with its runs, and stores their names.
    /// Returns `false` if a part of it is not old any more.
    pub(crate) async fn remove(&mut self, id: RunId, age: Duration) -> Result<bool, SharedError> {
        let (id, age_s) = (id.to_string(), age.as_secs_f64());
        let tx = self.client.transaction().await?;
        let rows = tx
            .query(
                "SELECT pushed_at < now() - make_interval(secs => $2::float8) FROM run
                 WHERE id = $1 OR bakeoff = $1 FOR UPDATE",
                &[&id, &age_s],
            )
            .await?;
        if rows.is_empty() || !rows.iter().all(|row| row.get(0)) {
            return Ok(false);
        }
        tx.execute(
            "WITH gone AS (
                 DELETE FROM run WHERE (id = $1 OR bakeoff = $1)
                     AND pushed_at < now() - make_interval(secs => $2::float8) RETURNING id, shelf)
             INSERT INTO removed (id, shelf) SELECT id, shelf FROM gone
             ON CONFLICT (id) DO UPDATE SET has_files = true, removed_at = now()",
            &[&id, &age_s],
        )
        .await?;
        // The bake-off has no row if some of its trials have not ended.
        tx.execute("INSERT INTO removed (id, shelf) VALUES ($1, 'bakeoffs') ON CONFLICT DO NOTHING", &[&id])
            .await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Removed runs and bake-offs that the store has files of.
    pub(crate) async fn removed_with_files(&self) -> Result<Vec<(Shelf, RunId)>, SharedError> {
        let most = i64::try_from(ROWS_MAX).expect("a small number");
        let sql = "SELECT left(id, 27), left(shelf, 9) FROM removed
                   WHERE has_files AND NOT EXISTS (SELECT FROM run WHERE run.id = removed.id) ORDER BY id LIMIT $1";
        let rows = self.client.query(sql, &[&most]).await?;
        let part = |row: &tokio_postgres::Row| {
            Some((Shelf::from_word(row.try_get(1).ok()?)?, run_id(row.try_get(0).ok()?)?))
        };
        Ok(rows.iter().filter_map(part).collect())
    }

    /// Begins to remove the files of a removed run. Until the transaction ends, a push that stores such files
    /// waits before it notes them.
    pub(crate) async fn begin_cleaning(&mut self, id: RunId) -> Result<Transaction<'_>, SharedError> {
        let tx = self.client.transaction().await?;
        tx.execute("UPDATE removed SET has_files = false WHERE id = $1", &[&id.to_string()]).await?;
        Ok(tx)
    }

    /// All rows, the runs before the bake-offs, and the texts in place of an id.
    pub(crate) async fn rows(&self) -> Result<(Vec<Row>, Vec<String>), SharedError> {
        let (mut rows, mut wrong, mut last) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page = self
                .client
                .query(
                    "SELECT id, left(shelf, 9), left(sha256, 65), left(bakeoff, 27) FROM run
                     WHERE id > $1 AND length(id) <= 200 ORDER BY id LIMIT $2",
                    &[&last, &PAGE],
                )
                .await?;
            let Some(end) = page.last() else { break };
            last = end.try_get(0)?;
            for row in &page {
                match read_row(row) {
                    Some(row) => rows.push(row),
                    None => wrong.push(row.try_get(0)?),
                }
            }
            if rows.len() + wrong.len() > ROWS_MAX {
                return Err(SharedError::wrong(format!(
                    "the index has more than {ROWS_MAX} rows, the limit"
                )));
            }
        }
        rows.sort_by_key(|row| (row.shelf, row.id));
        Ok((rows, wrong))
    }

    /// Files of a run, checked.
    pub(crate) async fn files(&self, id: RunId) -> Result<Vec<ParcelFile>, SharedError> {
        let most = i64::try_from(archive::FILES_MAX + 1).expect("a small number");
        let rows = self
            .client
            .query(
                "SELECT left(name, 256), bytes, left(sha256, 65) FROM file WHERE run = $1 LIMIT $2",
                &[&id.to_string(), &most],
            )
            .await?;
        let file = |row: &tokio_postgres::Row| {
            let bytes = row.try_get::<_, i64>(1)?.cast_unsigned();
            Ok(ParcelFile { name: row.try_get(0)?, bytes, sha256: row.try_get(2)? })
        };
        let read: Result<Vec<ParcelFile>, tokio_postgres::Error> = rows.iter().map(file).collect();
        let mut files =
            read.map_err(|error| SharedError::wrong(format!("its rows in `file` are unreadable: {error}")))?;
        // The order of bytes, which is that of an archive, and not that of the database's language.
        files.sort_by(|a, b| a.name.cmp(&b.name));
        check_parcel_files(&files)
            .map_err(|what| SharedError::wrong(format!("its rows in `file`: {what}")))?;
        Ok(files)
    }

    pub(crate) async fn named(&self, text: &str) -> Result<Vec<RunId>, SharedError> {
        let text = text.to_ascii_uppercase();
        let rows = self
            .client
            .query(
                "SELECT left(id, 27) FROM run WHERE left(id, length($1)) = $1
                     OR length($1) >= $2 AND right(id, length($1)) = $1 ORDER BY id DESC LIMIT 3",
                &[&text, &i32::try_from(RunId::SHORT_MIN).expect("a small number")],
            )
            .await?;
        Ok(rows.iter().filter_map(|row| run_id(row.try_get(0).ok()?)).collect())
    }
}

async fn is_removed(
    client: &(impl GenericClient + Sync),
    id: RunId,
    bakeoff: Option<RunId>,
) -> Result<bool, SharedError> {
    let sql = "SELECT EXISTS (SELECT FROM removed WHERE id = $1 OR id = $2)";
    let bakeoff = bakeoff.map(|id| id.to_string());
    Ok(client.query_one(sql, &[&id.to_string(), &bakeoff]).await?.get(0))
}

fn known() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("a small number")
}

async fn add_files(tx: &Transaction<'_>, parcel: &Parcel) -> Result<(), SharedError> {
    let names: Vec<&str> = parcel.files.iter().map(|file| file.name.as_str()).collect();
    let lengths: Vec<i64> = parcel.files.iter().map(|file| file.bytes.cast_signed()).collect();
    let sums: Vec<&str> = parcel.files.iter().map(|file| file.sha256.as_str()).collect();
    tx.execute(
        "INSERT INTO file SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::text[])",
        &[&parcel.header.id.to_string(), &names, &lengths, &sums],
    )
    .await?;
    Ok(())
}

/// Reads a row; `None` if one of its values is foreign.
fn read_row(row: &tokio_postgres::Row) -> Option<Row> {
    let bakeoff: Option<&str> = row.try_get(3).ok()?;
    Some(Row {
        id: run_id(row.try_get(0).ok()?)?,
        shelf: Shelf::from_word(row.try_get(1).ok()?)?,
        sha256: row.try_get(2).ok()?,
        bakeoff: bakeoff.and_then(run_id),
    })
}

/// Reads an id in its canonical spelling only: it becomes the name of a folder.
fn run_id(text: &str) -> Option<RunId> {
    text.parse::<RunId>().ok().filter(|id| id.to_string() == text)
}

/// A text of PostgreSQL holds every character except this one.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
