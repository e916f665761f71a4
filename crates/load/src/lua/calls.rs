//! The functions that the prelude calls by their addresses.
//!
//! A call through `LuaJIT`'s FFI is part of a compiled trace and costs a few nanoseconds. No function here
//! calls Lua or unwinds into it: an error is a value, and the prelude raises it.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::slice;

use crate::connection::{Failure, Idle};
use crate::lua::bound::Bound;
use crate::lua::context::{Context, Counter};
use crate::lua::laws;
use crate::lua::link::{Link, ResultHead};

/// The state behind a script's functions, and the connections that the script owns. Boxed: Lua has its
/// address.
pub(crate) struct Calls {
    pub(crate) context: Context,
    links: Vec<*mut Link>,
}

impl Calls {
    pub(crate) fn new(context: Context) -> Box<Self> {
        Box::new(Self { context, links: Vec::new() })
    }

    /// Whether a connection was lost.
    pub(crate) fn has_lost(&self) -> bool {
        // SAFETY: a connection leaves the list before it is freed.
        self.links.iter().any(|link| unsafe { &**link }.is_lost())
    }

    /// Whether a connection has rows of a bulk insert that no server has taken.
    pub(crate) fn has_rows(&self) -> bool {
        // SAFETY: as above.
        self.links.iter().any(|link| unsafe { &**link }.has_rows())
    }

    /// Counts each open connection as lost.
    pub(crate) fn lose(&mut self) {
        for link in &self.links {
            // SAFETY: as above.
            unsafe { &mut **link }.lose();
        }
    }

    /// Replaces all lost connections.
    pub(crate) fn revive(&mut self) -> Result<(), Failure> {
        let Self { context, links } = self;
        // SAFETY: as above; Lua does not run.
        links.iter().try_for_each(|link| unsafe { &mut **link }.revive(context))
    }

    /// Rolls back the transactions that a failed event has left open.
    pub(crate) fn roll_back(&mut self) {
        for link in &self.links {
            // SAFETY: as above.
            unsafe { &mut **link }.roll_back();
        }
    }

    /// State of the connections between two events: the first that does not stand.
    pub(crate) fn idle(&mut self) -> Idle {
        for link in &self.links {
            // SAFETY: as above.
            let idle = unsafe { &mut **link }.idle();
            if idle != Idle::Stands {
                return idle;
            }
        }
        Idle::Stands
    }
}

/// Names of the functions and their addresses.
pub(crate) const ADDRESSES: &[(&str, *const c_void)] = &[
    ("rand_default", rand_default as *const c_void),
    ("rand_uniform", rand_uniform as *const c_void),
    ("rand_gaussian", rand_gaussian as *const c_void),
    ("rand_special", rand_special as *const c_void),
    ("rand_pareto", rand_pareto as *const c_void),
    ("rand_zipfian", rand_zipfian as *const c_void),
    ("rand_unique", rand_unique as *const c_void),
    ("rand_unique_within", rand_unique_within as *const c_void),
    ("rand_bits", rand_bits as *const c_void),
    ("rand_unit", rand_unit as *const c_void),
    ("rand_string", rand_string as *const c_void),
    ("rand_varstring", rand_varstring as *const c_void),
    ("rand_into", rand_into as *const c_void),
    ("connect", connect as *const c_void),
    ("free", free as *const c_void),
    ("disconnect", disconnect as *const c_void),
    ("reconnect", reconnect as *const c_void),
    ("query", query as *const c_void),
    ("more_results", more_results as *const c_void),
    ("next_result", next_result as *const c_void),
    ("fetch", fetch as *const c_void),
    ("free_result", free_result as *const c_void),
    ("prepare", prepare as *const c_void),
    ("close", close as *const c_void),
    ("execute", execute as *const c_void),
    ("bulk_init", bulk_init as *const c_void),
    ("bulk_next", bulk_next as *const c_void),
    ("bulk_done", bulk_done as *const c_void),
    ("count", count as *const c_void),
];

// SAFETY, for all functions below: the prelude passes the address of the `Calls` of its state, of a
// connection that `connect` returned and `free` has not freed, or of a result within one; lengths are those
// of Lua's strings. A state runs on one thread, and no function calls back into Lua, so each reference is the
// only one.

unsafe fn context_of<'a>(calls: *mut Calls) -> &'a mut Context {
    // SAFETY: see above.
    unsafe { &mut (*calls).context }
}

unsafe fn parts_of<'a>(link: *mut Link) -> (&'a mut Link, &'a mut Context) {
    // SAFETY: see above; the context is not part of the connection.
    unsafe {
        let calls = (*link).owner.cast::<Calls>();
        (&mut *link, &mut (*calls).context)
    }
}

unsafe fn bytes_of<'a>(start: *const c_char, length: usize) -> &'a [u8] {
    // SAFETY: see above.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}

unsafe extern "C" fn rand_default(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    let Context { random, laws, .. } = unsafe { context_of(calls) };
    laws.default(random, from, to)
}

unsafe extern "C" fn rand_uniform(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    laws::uniform(&mut unsafe { context_of(calls) }.random, from, to)
}

unsafe extern "C" fn rand_gaussian(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    let Context { random, laws, .. } = unsafe { context_of(calls) };
    laws.gaussian(random, from, to)
}

unsafe extern "C" fn rand_special(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    let Context { random, laws, .. } = unsafe { context_of(calls) };
    laws.special(random, from, to)
}

unsafe extern "C" fn rand_pareto(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    let Context { random, laws, .. } = unsafe { context_of(calls) };
    laws.pareto(random, from, to)
}

unsafe extern "C" fn rand_zipfian(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    let Context { random, laws, .. } = unsafe { context_of(calls) };
    laws.zipfian(random, from, to)
}

unsafe extern "C" fn rand_unique(calls: *mut Calls) -> u32 {
    // SAFETY: see above.
    unsafe { context_of(calls) }.unique.draw()
}

unsafe extern "C" fn rand_unique_within(calls: *mut Calls, from: u32, to: u32) -> u32 {
    // SAFETY: see above.
    unsafe { context_of(calls) }.unique.draw_within(from, to)
}

unsafe extern "C" fn rand_bits(calls: *mut Calls) -> u64 {
    // SAFETY: see above.
    unsafe { context_of(calls) }.random.bits()
}

unsafe extern "C" fn rand_unit(calls: *mut Calls) -> f64 {
    // SAFETY: see above.
    unsafe { context_of(calls) }.random.unit()
}

unsafe extern "C" fn rand_string(calls: *mut Calls, form: *const c_char, length: usize) -> *const u8 {
    // SAFETY: see above.
    let (context, form) = unsafe { (context_of(calls), bytes_of(form, length)) };
    context.text.resize(length, 0);
    laws::write_form(&mut context.random, form, &mut context.text);
    context.text.as_ptr()
}

unsafe extern "C" fn rand_varstring(calls: *mut Calls, least: u32, most: u32, length: *mut u32) -> *const u8 {
    // SAFETY: see above; `length` is an array of one number.
    let context = unsafe { context_of(calls) };
    context.text.resize(most as usize, 0);
    let written = laws::write_any(&mut context.random, least.min(most), &mut context.text);
    // SAFETY: see above.
    unsafe { length.write(written) };
    context.text.as_ptr()
}

unsafe extern "C" fn rand_into(calls: *mut Calls, form: *const c_char, length: usize, out: *mut u8) {
    // SAFETY: see above; the parameter has room for so many bytes, and does not overlap a string.
    let (context, form, out) =
        unsafe { (context_of(calls), bytes_of(form, length), slice::from_raw_parts_mut(out, length)) };
    laws::write_form(&mut context.random, form, out);
}

unsafe extern "C" fn connect(calls: *mut Calls) -> *mut Link {
    // SAFETY: see above.
    let Calls { context, links } = unsafe { &mut *calls };
    match Link::open(context, calls.cast()) {
        Ok(link) => {
            let link = Box::into_raw(link);
            links.push(link);
            link
        }
        Err(_) => ptr::null_mut(),
    }
}

unsafe extern "C" fn free(link: *mut Link) {
    // SAFETY: see above; Lua frees each connection once, and the state is older than its connections.
    let (mut link, calls) = unsafe {
        let calls = (*link).owner.cast::<Calls>();
        (*calls).links.retain(|other| *other != link);
        (Box::from_raw(link), &mut *calls)
    };
    link.disconnect(&calls.context);
}

unsafe extern "C" fn disconnect(link: *mut Link) -> i32 {
    // SAFETY: see above.
    let (link, context) = unsafe { parts_of(link) };
    link.disconnect(context);
    0
}

unsafe extern "C" fn reconnect(link: *mut Link) -> i32 {
    // SAFETY: see above.
    let (link, context) = unsafe { parts_of(link) };
    i32::from(!link.reconnect(context))
}

unsafe extern "C" fn query(link: *mut Link, sql: *const c_char, length: usize) -> *mut ResultHead {
    // SAFETY: see above.
    let ((link, context), sql) = unsafe { (parts_of(link), bytes_of(sql, length)) };
    link.query(context, sql)
}

unsafe extern "C" fn more_results(link: *mut Link) -> i32 {
    // SAFETY: see above.
    i32::from(unsafe { &*link }.has_more_results())
}

unsafe extern "C" fn next_result(link: *mut Link) -> *mut ResultHead {
    // SAFETY: see above.
    let (link, context) = unsafe { parts_of(link) };
    link.next_result(context)
}

unsafe extern "C" fn fetch(result: *mut ResultHead) -> i32 {
    if result.is_null() {
        return 0;
    }
    // SAFETY: see above.
    let (link, context) = unsafe { parts_of((*result).connection) };
    i32::from(link.fetch(context))
}

unsafe extern "C" fn free_result(result: *mut ResultHead) -> i32 {
    if result.is_null() {
        return 1;
    }
    // SAFETY: see above.
    i32::from(!unsafe { &mut *(*result).connection }.free_result())
}

unsafe extern "C" fn prepare(link: *mut Link, sql: *const c_char, length: usize) -> i32 {
    // SAFETY: see above.
    let ((link, context), sql) = unsafe { (parts_of(link), bytes_of(sql, length)) };
    link.prepare(context, sql)
}

/// The connection may be gone: at the end of a state, Lua frees it and its statements in any order.
unsafe extern "C" fn close(calls: *mut Calls, link: *mut Link, number: i32) {
    // SAFETY: see above; the connection is only used if it is still there.
    unsafe {
        if (*calls).links.contains(&link) {
            (*link).close_statement(number);
        }
    }
}

unsafe extern "C" fn execute(
    link: *mut Link,
    number: i32,
    parameters: *const Bound,
    many: usize,
) -> *mut ResultHead {
    // SAFETY: see above; the array of addresses may be absent if it is empty.
    let ((link, context), bound) = unsafe {
        let bound = if many == 0 { &[] } else { slice::from_raw_parts(parameters, many) };
        (parts_of(link), bound)
    };
    link.execute(context, number, bound)
}

unsafe extern "C" fn bulk_init(link: *mut Link, sql: *const c_char, length: usize) -> i32 {
    // SAFETY: see above.
    let ((link, context), sql) = unsafe { (parts_of(link), bytes_of(sql, length)) };
    i32::from(!link.bulk_init(context, sql))
}

unsafe extern "C" fn bulk_next(link: *mut Link, row: *const c_char, length: usize) -> i32 {
    // SAFETY: see above.
    let ((link, context), row) = unsafe { (parts_of(link), bytes_of(row, length)) };
    link.bulk_next(context, row) as i32
}

unsafe extern "C" fn bulk_done(link: *mut Link) -> i32 {
    // SAFETY: see above.
    let (link, context) = unsafe { parts_of(link) };
    i32::from(!link.bulk_done(context))
}

unsafe extern "C" fn count(calls: *mut Calls, counter: i32) {
    // SAFETY: see above.
    let counters = &unsafe { context_of(calls) }.counters;
    match counter {
        0 => counters.note(Counter::Other),
        1 => counters.note(Counter::Read),
        2 => counters.note(Counter::Write),
        4 => counters.note(Counter::Error),
        5 => counters.note(Counter::Reconnect),
        _ => {}
    }
}
