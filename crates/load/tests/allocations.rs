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

fn allocations_of(settings: &LoadSettings) -> u64 {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    let record = support::run(settings);
    assert_eq!(Some(record.counts.done), settings.events_max);
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

/// Compares a run of few events with one of many: the difference is what the events allocate.
fn assert_free(settings: &LoadSettings, few: u64, many: u64) {
    assert_at_most(0, settings, few, many);
}

/// Variant of [`assert_free`] for events that allocate so often each.
fn assert_at_most(each: u64, settings: &LoadSettings, few: u64, many: u64) {
    let of = |events| allocations_of(&LoadSettings { events_max: Some(events), ..settings.clone() });
    of(few); // Whatever is only made once.
    let (least, most) = (of(few), of(many));
    // More events have more different latencies, each with its place in the record: on a busy machine 208 for
    // 400 events, and 250 for 1,000. An event that allocates does so each time.
    let limit = each * (many - few) + ((many - few) * 3 / 4).min(500);
    assert!(most < least + limit, "{few} events: {least} allocations, {many} events: {most}");
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
        assert_free(&settings, 200, 200 + many);
        assert_flat(&settings, 200, 200 + many);
    }
    for (text, many) in [(PREPARES, 20_000), (LONG_ANSWERS, 400)] {
        assert_free(&script(text), 200, 200 + many);
        assert_flat(&script(text), 200, 200 + many);
    }
    let mut restarts = script(RESTARTS);
    restarts.scripts.defines.push(("mysql-ignore-errors".to_owned(), "1062".to_owned()));
    assert_at_most(2, &restarts, 200, 4_200);
    assert_flat(&restarts, 200, 2_200);
}

/// Checks that the most memory that is in use does not grow with the number of events.
#[cfg(feature = "lua")]
fn assert_flat(settings: &LoadSettings, few: u64, many: u64) {
    let of = |events| {
        BYTES_MAX.store(BYTES.load(Ordering::SeqCst), Ordering::SeqCst);
        let before = BYTES.load(Ordering::SeqCst);
        allocations_of(&LoadSettings { events_max: Some(events), ..settings.clone() });
        BYTES_MAX.load(Ordering::SeqCst) - before
    };
    of(few);
    let (least, most) = (of(few), of(many));
    // Recorders take memory for groups of latencies that did not occur before.
    assert!(most < least + (256 << 10), "{few} events: {least} bytes, {many} events: {most}");
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
        assert_free(&memory, 1_000, 201_000);
        assert_flat(&memory, 1_000, 201_000);
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
            assert_free(&bank, 200, 2_200);
            assert_flat(&bank, 200, 2_200);
        }
        #[cfg(feature = "lua")]
        {
            text.oltp.prepared = true;
            assert_scripts_are_flat(&text);
        }
    }

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
        allocations_of(&LoadSettings { events_max: Some(100), ..warm });
        let few = LoadSettings { prepare: PreparePolicy::Never, ..few };
        for (pace, connections) in
            [(Loop::CLOSED, None), (Loop::CLOSED, Some(4)), (support::jittered(5_000.0), Some(4))]
        {
            assert_free(&LoadSettings { pace, connections, ..few.clone() }, 100, many);
        }
    }
}
