//! Nothing is allocated between the intended start and the recorded latency.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use record::load::{LoadSettings, Loop, PreparePolicy, Workload};
use record::requests::KvSettings;
use support::cache::Cache;
use support::mariadb::MariaDb;
use support::postgres::Postgres;
use support::web::Nginx;

/// Counts every allocation of the process.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes in use, and the most so far.
static BYTES: AtomicU64 = AtomicU64::new(0);
static BYTES_MAX: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let bytes = BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed) + layout.size() as u64;
        BYTES_MAX.fetch_max(bytes, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A run's allocations, and the most memory that was in use during it beyond what was before.
struct Used {
    allocations: u64,
    bytes_max: u64,
}

/// Memory that a run of so many events uses.
fn used(settings: &LoadSettings, events: u64) -> Used {
    let settings = LoadSettings { events_max: Some(events), ..settings.clone() };
    let (allocations, bytes) = (ALLOCATIONS.load(Ordering::SeqCst), BYTES.load(Ordering::SeqCst));
    BYTES_MAX.store(bytes, Ordering::SeqCst);
    let record = support::run(&settings);
    assert_eq!(record.counts.done, events);
    Used {
        allocations: ALLOCATIONS.load(Ordering::SeqCst) - allocations,
        bytes_max: BYTES_MAX.load(Ordering::SeqCst) - bytes,
    }
}

/// Memory that runs of few and of many events use.
struct Compared {
    few: u64,
    many: u64,
    least: Used,
    most: Used,
}

/// Runs few events and many.
fn compared(settings: &LoadSettings, few: u64, many: u64) -> Compared {
    used(settings, few); // Whatever is only made once.
    Compared { few, many, least: used(settings, few), most: used(settings, many) }
}

impl Compared {
    /// Checks that an event allocates at most so often: the difference is what the events allocate.
    fn assert_at_most(&self, each: u64) {
        let (least, most) = (self.least.allocations, self.most.allocations);
        let events = self.many - self.few;
        // More events have more different latencies, each with its place in the record: on a busy machine 325
        // for 400 events of long answers. An event that allocates does so each time.
        let limit = each * events + (events * 9 / 10).min(500);
        let (few, many) = (self.few, self.many);
        assert!(most < least + limit, "{few} events: {least} allocations, {many} events: {most}");
    }

    /// Checks that the most memory that is in use does not grow with the number of events.
    #[cfg(feature = "lua")]
    fn assert_flat(&self) {
        let (least, most) = (self.least.bytes_max, self.most.bytes_max);
        let (few, many) = (self.few, self.many);
        // Recorders take memory for groups of latencies that did not occur before.
        assert!(most < least + (256 << 10), "{few} events: {least} bytes, {many} events: {most}");
    }
}

/// Checks that no event allocates.
fn assert_free(settings: &LoadSettings, few: u64, many: u64) {
    compared(settings, few, many).assert_at_most(0);
}

/// Checks that no event allocates, and that memory does not grow with the number of events.
#[cfg(feature = "lua")]
fn assert_free_and_flat(settings: &LoadSettings, few: u64, many: u64) {
    let compared = compared(settings, few, many);
    compared.assert_at_most(0);
    compared.assert_flat();
}

/// End of a script that checks the memory of Lua itself after every 200 events and a collection: what the
/// script keeps would be there.
#[cfg(feature = "lua")]
const LUA_IS_FLAT: &str = "
    local work, n, first = event, 0, nil
    function event(...)
      n = n + 1
      if n % 200 == 0 then
        collectgarbage()
        local kib = collectgarbage('count')
        first = first or kib
        if kib > first + 64 then error('Lua has ' .. kib .. ' KiB, and had ' .. first) end
      end
      return work(...)
    end";

/// Prepares a statement for each event.
#[cfg(feature = "lua")]
const PREPARES: &str = "
    function thread_init() con = sysbench.sql.driver():connect() end
    function event()
      local statement = con:prepare('SELECT c, pad FROM sbtest1 WHERE id = ? OR id = ?')
      local one, other = statement:bind_create(sysbench.sql.type.INT), statement:bind_create(sysbench.sql.type.INT)
      statement:bind_param(one, other)
      one:set(sysbench.rand.default(1, 1000))
      other:set(1)
      assert(#statement:execute():fetch_row() == 2)
      statement:close()
    end";

/// Answers of 3 MB, as one value.
#[cfg(feature = "lua")]
const LONG_ANSWERS: &str = "
    function thread_init() con = sysbench.sql.driver():connect() end
    function event() assert(con:query([[SELECT REPEAT('x', 3000000)]]).nrows == 1) end";

/// Each event fails once, by a duplicate key, and begins again. A failed try allocates one text, and the
/// library around Lua a reference to that of the script. Both are freed.
#[cfg(feature = "lua")]
const RESTARTS: &str = "
    local tries = 0
    function thread_init() con = sysbench.sql.driver():connect() end
    function event()
      tries = tries + 1
      if tries % 2 == 1 then con:query([[INSERT INTO sbtest1 (id, k, c, pad) VALUES (1, 1, 'c', 'pad')]]) end
    end";

/// Checks scripts in Lua over many events: allocations, the most memory in use, and Lua's own.
#[cfg(feature = "lua")]
fn assert_scripts_are_flat(on: &LoadSettings) {
    let script = |text: &str| {
        let mut settings = bank(on);
        settings.scripts.files[0].text = text.to_owned() + LUA_IS_FLAT;
        settings
    };
    for (name, many) in [("oltp_point_select", 40_000), ("oltp_read_write", 4_000)] {
        let path = format!("/usr/share/sysbench/{name}.lua");
        if !std::path::Path::new(&path).exists() {
            println!("skipped: {name}.lua is not installed (apt-get install sysbench)");
            continue;
        }
        let mut settings = bank(on);
        settings.scripts.files = bakeoff_load::LuaScript::read(&path).unwrap().into_files();
        settings.scripts.files[0].text += LUA_IS_FLAT;
        settings.scripts.defines.push(("table-size".to_owned(), "1000".to_owned()));
        assert_free_and_flat(&settings, 200, 200 + many);
    }
    for (text, many) in [(PREPARES, 20_000), (LONG_ANSWERS, 400)] {
        assert_free_and_flat(&script(text), 200, 200 + many);
    }
    let mut restarts = script(RESTARTS);
    restarts.scripts.defines.push(("mysql-ignore-errors".to_owned(), "1062".to_owned()));
    let restarts = compared(&restarts, 200, 4_200);
    restarts.assert_at_most(2);
    restarts.assert_flat();
}

/// The load of a script in Lua. Lua's own memory is not counted, since Lua has its own allocator; the script
/// checks that it does not grow.
#[cfg(feature = "lua")]
fn memory(on: &LoadSettings) -> LoadSettings {
    let mut settings = bank(on);
    "local n = 0
        function event()
          n = n + 1
          local row = { sysbench.rand.default(1, 1000), sysbench.rand.string('@@@-###'), tostring(n) }
          text = table.concat(row, ' ') .. sysbench.rand.varstring(1, 50)
          if n % 10000 == 0 and collectgarbage('count') > 4096 then error('Lua has ' .. collectgarbage('count')) end
        end"
    .clone_into(&mut settings.scripts.files[0].text);
    settings
}

/// The load of a script in Lua.
#[cfg(feature = "lua")]
fn bank(on: &LoadSettings) -> LoadSettings {
    use record::load::{ScriptFile, ScriptSettings};
    let text = include_str!("scripts/bank.lua").to_owned();
    let files = vec![ScriptFile { name: "bank.lua".to_owned(), weight: 1, text }];
    let mut settings = LoadSettings { workload: Workload::Script, ..on.clone() };
    settings.scripts = ScriptSettings { files, defines: Vec::new() };
    settings
}

// One test, so that no other test allocates meanwhile.
#[test]
fn an_event_allocates_nothing() {
    let hour = Duration::from_hours(1);
    let base = LoadSettings { time: hour, interval: hour, threads: 2, ..support::settings("null:") };
    assert_free(&LoadSettings { pace: Loop::CLOSED, ..base.clone() }, 1_000, 1_001_000);
    assert_free(&LoadSettings { pace: support::jittered(20_000.0), ..base.clone() }, 1_000, 21_000);

    #[cfg(feature = "lua")]
    {
        let memory = memory(&LoadSettings { pace: Loop::CLOSED, ..base.clone() });
        assert_free_and_flat(&memory, 1_000, 201_000);
    }

    let dir = tempfile::tempdir().unwrap();
    let target = format!("sqlite:{}?journal_mode=wal&synchronous=off", dir.path().join("x.db").display());
    for workload in [Workload::OltpPointSelect, Workload::OltpReadWrite] {
        let sqlite = LoadSettings {
            pace: Loop::CLOSED,
            threads: 1,
            time: hour,
            interval: hour,
            ..support::settings(&target)
        };
        assert_free(&LoadSettings { workload, ..sqlite }, 100, 2_100);
    }

    assert_sql_is_free(hour);
    assert_caches_and_web_are_free(hour);
}

fn assert_sql_is_free(hour: Duration) {
    let (mariadb, postgres) = (MariaDb::start(), Postgres::start());
    let targets = [mariadb.as_ref().map(MariaDb::socket_url), postgres.as_ref().map(Postgres::url)];
    for target in targets.into_iter().flatten() {
        let server = LoadSettings {
            pace: Loop::CLOSED,
            threads: 1,
            time: hour,
            interval: hour,
            ..support::settings(target)
        };
        for workload in [Workload::OltpPointSelect, Workload::OltpReadWrite] {
            assert_free(&LoadSettings { workload, ..server.clone() }, 100, 1_100);
        }
        // Concurrent writers on several connections conflict now and then: the server's message about that is
        // text.
        for workload in [Workload::OltpPointSelect, Workload::OltpReadOnly] {
            let connections = Some(4);
            assert_free(&LoadSettings { workload, connections, ..server.clone() }, 100, 1_100);
        }
        let mut text = server;
        text.oltp.prepared = false;
        assert_free(&text, 100, 1_100);
        #[cfg(feature = "lua")]
        for prepared in [true, false] {
            let mut bank = bank(&text);
            bank.oltp.prepared = prepared;
            assert_free_and_flat(&bank, 200, 2_200);
        }
        #[cfg(feature = "lua")]
        {
            text.oltp.prepared = true;
            assert_scripts_are_flat(&text);
        }
    }
}

fn assert_caches_and_web_are_free(hour: Duration) {
    let (memcached, redis, nginx) = (Cache::memcached(64), Cache::redis(&[]), Nginx::start());
    let caches = [memcached.as_ref().map(|c| format!("memcached://127.0.0.1:{}", c.port))]
        .into_iter()
        .chain([redis.as_ref().map(|c| format!("redis://127.0.0.1:{}", c.port))]);
    // nginx closes a connection after fifty requests; a new connection allocates.
    let web = nginx.as_ref().map(|nginx| nginx.url("/page"));
    for (target, many) in caches.map(|target| (target, 2_100)).chain([(web, 130)]) {
        let Some(target) = target else { continue };
        let few = LoadSettings {
            kv: KvSettings { keys: 200, ..KvSettings::usual() },
            verify: true,
            threads: 1,
            time: hour,
            interval: hour,
            ..support::settings(target)
        };
        // Values of twenty kilobytes come in pieces: a connection has room for one after it has read one.
        let warm = LoadSettings { prepare: PreparePolicy::Auto, pace: Loop::CLOSED, ..few.clone() };
        used(&warm, 100);
        let few = LoadSettings { prepare: PreparePolicy::Never, ..few };
        for (pace, connections) in
            [(Loop::CLOSED, None), (Loop::CLOSED, Some(4)), (support::jittered(5_000.0), Some(4))]
        {
            assert_free(&LoadSettings { pace, connections, ..few.clone() }, 100, many);
        }
    }
}
