//! A Lua state of `LuaJIT`.

use mlua::{Lua, ffi};

/// A Lua state with `LuaJIT`'s own allocator and its own `pcall`, as sysbench's: a state that mlua creates
/// would pass each allocation on to Rust, and a `pcall` of mlua would end each trace.
pub(crate) struct Machine {
    /// `None` only while it is dropped.
    lua: Option<Lua>,
    state: *mut ffi::lua_State,
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
        Self { lua: Some(lua), state }
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
