//! A Lua state of `LuaJIT`.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;

use mlua::{HookTriggers, Lua, VmState, ffi};

/// A Lua state with `LuaJIT`'s own allocator and its own `pcall`, as sysbench's: a state that mlua creates
/// would pass each allocation on to Rust, and a `pcall` of mlua would end each trace.
pub(crate) struct Machine {
    /// `None` only while it is dropped.
    lua: Option<Lua>,
    state: *mut ffi::lua_State,
    is_stopped: Rc<Cell<bool>>,
}

/// Instructions between two looks whether the code is to end.
const INSTRUCTIONS: u32 = 1_000;

/// Message of an instruction of code that is to end.
const STOPPED: &str = "the event does not end if its statements are only checked";

// Modes of `luajit.h` for the whole engine: it compiles no more, and forgets its compiled code.
const MODE_OFF: c_int = 0;
const MODE_FLUSH: c_int = 0x0200;

unsafe extern "C-unwind" {
    fn luaJIT_setmode(state: *mut ffi::lua_State, index: c_int, mode: c_int) -> c_int;
}

impl Machine {
    /// Creates a state with all libraries. Drop what refers to it before.
    pub(crate) fn new() -> Self {
        // SAFETY: the state is new and not shared. The user's script may do what the user may do; it may also
        // call C.
        let (lua, state) = unsafe {
            let state = ffi::luaL_newstate();
            assert!(!state.is_null(), "there is memory for a Lua state");
            ffi::luaL_openlibs(state);
            (Lua::get_or_init_from_ptr(state).clone(), state)
        };
        Self { lua: Some(lua), state, is_stopped: Rc::default() }
    }

    /// Ends the script's code soon after `is_over` is true: each further instruction fails, also after a
    /// `pcall`.
    pub(crate) fn stop_if(&self, is_over: impl Fn() -> bool + 'static) -> mlua::Result<()> {
        // SAFETY: the state is not in use. Compiled code calls no hook.
        unsafe {
            for mode in [MODE_OFF, MODE_FLUSH] {
                luaJIT_setmode(self.state, 0, mode);
            }
        }
        let often = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        let is_stopped = Rc::clone(&self.is_stopped);
        self.lua().set_global_hook(often, move |lua, _| {
            if !is_over() {
                return Ok(VmState::Continue);
            }
            is_stopped.set(true);
            let always = HookTriggers::new().every_nth_instruction(1);
            lua.set_global_hook(always, |_, _| Err(mlua::Error::runtime(STOPPED)))?;
            Err(mlua::Error::runtime(STOPPED))
        })
    }

    /// Ends the effect of [`Self::stop_if`]; finalizers run without it.
    pub(crate) fn stop_no_more(&self) {
        self.lua().remove_global_hook();
        // SAFETY: the state is not in use.
        unsafe { ffi::lua_sethook(self.state, None, 0, 0) };
    }

    /// Whether [`Self::stop_if`] has ended the script's code.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    pub(crate) fn lua(&self) -> &Lua {
        self.lua.as_ref().expect("it is not being dropped")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.lua = None;
        // SAFETY: `new` has created it, and no handle of mlua is left.
        unsafe { ffi::lua_close(self.state) }
    }
}
