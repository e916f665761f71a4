-- The interface of sysbench's scripts, on functions of this program that are called by their addresses.
--
-- Arguments: the addresses by name, the address of this state's context, and facts about the script. Returns the
-- functions that the program calls.

local native, context, facts = ...

local ffi = require("ffi")
_G.ffi = ffi

ffi.cdef[[
typedef enum {
  SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR, SB_CNT_RECONNECT, SB_CNT_BYTES_READ,
  SB_CNT_BYTES_WRITTEN, SB_CNT_MAX
} sb_counter_type;

typedef struct { const char *start; size_t length; } bakeoff_value;
typedef struct bakeoff_connection bakeoff_connection;
typedef struct {
  uint32_t counter, nrows, nfields;
  const bakeoff_value *values;
  bakeoff_connection *connection;
} bakeoff_result;
struct bakeoff_connection {
  int32_t error, sql_errno;
  const char *sql_state, *sql_errmsg;
  bakeoff_result result;
};
typedef struct {
  int32_t type;
  uint32_t max_len, length, is_null;
  int64_t integer;
  double real;
  char text[?];
} bakeoff_parameter;
typedef struct { int32_t number; } bakeoff_statement;
typedef struct bakeoff_nothing bakeoff_nothing;
]]

context = ffi.cast("void *", context)

local function call(name, form) return ffi.cast(form, native[name]) end

-- A terminal obeys control characters, and a script may print what a server has sent: they are escaped. A pipe or a
-- file gets the bytes.
local is_terminal = { [io.stdout] = facts.terminals[1], [io.stderr] = facts.terminals[2] }
if facts.terminals[1] or facts.terminals[2] then
   local files, printable, unpack = getmetatable(io.stdout).__index, facts.printable, unpack
   local write = files.write
   function files.write(file, ...)
      if not is_terminal[file] then return write(file, ...) end
      local texts = { ... }
      for i, text in ipairs(texts) do texts[i] = type(text) == "string" and printable(text) or text end
      return write(file, unpack(texts, 1, select("#", ...)))
   end
   function io.write(...) return io.output():write(...) end
end

-- Output. A program that prints a document on standard output sends the script's text elsewhere. The text of a script that
-- is only asked for its options is shown if the script fails meanwhile.
local unshown
if facts.output == "stderr" then
   io.stdout = io.stderr
   io.output(io.stderr)
elseif facts.output == "nowhere" then
   unshown = io.tmpfile()
   local nowhere = unshown or io.open("/dev/null", "w")
   if nowhere then
      io.stdout = nowhere
      io.output(nowhere)
   end
else
   io.stdout:setvbuf("line")
end
if facts.output ~= "stdout" or facts.terminals[1] then
   function print(...)
      local texts = {}
      for i = 1, select("#", ...) do texts[i] = tostring((select(i, ...))) end
      io.write(table.concat(texts, "\t"), "\n")
   end
end

local function alert(text) io.stderr:write("ALERT: ", text, "\n") end

package.path = facts.path
package.cpath = facts.cpath
-- A loader that finds nothing: its text is part of the error for a module that is not found.
if facts.unsearched then
   package.loaders[#package.loaders + 1] = function() return "\n\t" .. facts.unsearched end
end

sysbench = {
   tid = facts.tid,
   version = facts.version,
   version_string = facts.version_string,
   error = { NONE = 0, RESTART_EVENT = 1 },
   cmdline = { argv = facts.argv, command = facts.command, script_path = facts.script },
   opt = {},
   rand = {},
   sql = {},
   histogram = {},
   hooks = {},
}

-- Random numbers

do
   local rand = sysbench.rand
   local range = "uint32_t (*)(void *, uint32_t, uint32_t)"
   for _, name in ipairs({"default", "uniform", "gaussian", "special", "pareto", "zipfian"}) do
      local draw = call("rand_" .. name, range)
      rand[name] = function(a, b) return draw(context, a, b) end
   end
   local unique = call("rand_unique", "uint32_t (*)(void *)")
   local bits = call("rand_bits", "uint64_t (*)(void *)")
   local unit = call("rand_unit", "double (*)(void *)")
   local string_of = call("rand_string", "const char *(*)(void *, const char *, size_t)")
   local varstring = call("rand_varstring", "const char *(*)(void *, uint32_t, uint32_t, uint32_t *)")
   local length = ffi.new("uint32_t[1]")

   function rand.unique() return unique(context) end
   function rand.uniform_uint64() return bits(context) end
   function rand.uniform_double() return unit(context) end
   function rand.string(form) return ffi.string(string_of(context, form, #form), #form) end
   function rand.varstring(min_len, max_len)
      assert(min_len <= max_len)
      assert(max_len > 0)
      local start = varstring(context, min_len, max_len, length)
      return ffi.string(start, length[0])
   end

   -- Names of older versions, which their own scripts use.
   sb_rand, sb_rand_uniform, sb_rand_gaussian = rand.default, rand.uniform, rand.gaussian
   sb_rand_special, sb_rand_pareto, sb_rand_zipfian = rand.special, rand.pareto, rand.zipfian
   sb_rand_str = rand.string
   function sb_rnd() return tonumber(bits(context) % 4294967296) end

   local unique_within = call("rand_unique_within", range)
   function sb_rand_uniq(from, to)
      from, to = math.max(math.ceil(from or 0), 0), math.min(math.floor(to or 4294967295), 4294967295)
      if not (from <= to) then error("sb_rand_uniq: the range is empty", 2) end
      return unique_within(context, from, to)
   end
end

-- SQL

local sql = sysbench.sql
sql.error = { NONE = 0, IGNORABLE = 1, FATAL = 2 }
sql.type = {
   NONE = 0, TINYINT = 1, SMALLINT = 2, INT = 3, BIGINT = 4, FLOAT = 5, DOUBLE = 6, TIME = 7, DATE = 8,
   DATETIME = 9, TIMESTAMP = 10, CHAR = 11, VARCHAR = 12,
}

local INTEGER, REAL, TEXT = 1, 2, 3
local kind_of = {
   [sql.type.TINYINT] = INTEGER, [sql.type.SMALLINT] = INTEGER, [sql.type.INT] = INTEGER,
   [sql.type.BIGINT] = INTEGER, [sql.type.FLOAT] = REAL, [sql.type.DOUBLE] = REAL,
   [sql.type.CHAR] = TEXT, [sql.type.VARCHAR] = TEXT,
}

local connect = call("connect", "bakeoff_connection *(*)(void *)")
local free_connection = call("free", "void (*)(bakeoff_connection *)")
local disconnect = call("disconnect", "int (*)(bakeoff_connection *)")
local reconnect = call("reconnect", "int (*)(bakeoff_connection *)")
local query = call("query", "bakeoff_result *(*)(bakeoff_connection *, const char *, size_t)")
local more_results = call("more_results", "int (*)(bakeoff_connection *)")
local next_result = call("next_result", "bakeoff_result *(*)(bakeoff_connection *)")
local fetch = call("fetch", "int (*)(bakeoff_result *)")
local free_result = call("free_result", "int (*)(bakeoff_result *)")
local prepare = call("prepare", "int32_t (*)(bakeoff_connection *, const char *, size_t)")
local close = call("close", "void (*)(void *, bakeoff_connection *, int32_t)")
local execute = call("execute",
   "bakeoff_result *(*)(bakeoff_connection *, int32_t, bakeoff_parameter **, size_t)")
local bulk_init = call("bulk_init", "int (*)(bakeoff_connection *, const char *, size_t)")
local bulk_next = call("bulk_next", "int (*)(bakeoff_connection *, const char *, size_t)")
local bulk_done = call("bulk_done", "int (*)(bakeoff_connection *)")
local rand_into = call("rand_into", "void (*)(void *, const char *, size_t, char *)")
local count = call("count", "void (*)(void *, int32_t)")

local Parameter = {}
Parameter.__index = Parameter
Parameter.__tostring = function() return "<sql_param>" end

function Parameter:set(value)
   if value == nil then
      self.is_null = 1
      return
   end
   self.is_null = 0
   local kind = self.type
   if kind == INTEGER then
      self.integer = value
   elseif kind == REAL then
      self.real = value
   else
      local length = #value
      if length > self.max_len then length = self.max_len end
      ffi.copy(self.text, value, length)
      self.length = length
   end
end

function Parameter:set_rand_str(form)
   if self.type ~= TEXT then error("Unsupported argument type: " .. self.type, 2) end
   local length = #form
   if length > self.max_len then length = self.max_len end
   rand_into(context, form, length, self.text)
   self.is_null = 0
   self.length = length
end

local new_parameter = ffi.metatype("bakeoff_parameter", Parameter)
local new_handle = ffi.typeof("bakeoff_statement")

local Statement = {}
Statement.__index = Statement
Statement.__tostring = function() return "<sql_statement>" end

function Statement:bind_create(of, max_len)
   local kind = kind_of[of]
   if kind == nil then error("Unsupported argument type: " .. tostring(of), 2) end
   if kind == TEXT and not (type(max_len) == "number" and max_len >= 0 and max_len < 2147483648) then
      error("bind_create: expected a length from 0 to 2147483647, found " .. tostring(max_len), 2)
   end
   local room = kind == TEXT and max_len or 0
   local parameter = new_parameter(room)
   parameter.type = kind
   parameter.max_len = kind == TEXT and max_len or 8
   return parameter
end

function Statement:bind_param(...)
   local length = select("#", ...)
   if length < 1 then return nil end
   -- The array holds addresses only; the table keeps the parameters.
   self.kept = {...}
   self.parameters = ffi.new("bakeoff_parameter *[?]", length)
   for i = 1, length do
      if self.kept[i] == nil then error("bind_param: parameter " .. i .. " is nil", 2) end
      self.parameters[i - 1] = self.kept[i]
   end
   self.count = length
   return 0
end

-- The result of a statement that returns no rows: equal to nil, and like sysbench's not false. Reading a field of sysbench's
-- ends the program. The fields of this one are errors, which name the last such statement.
local without_rows, nothing

local function result_of(connection, rs, text, shown)
   if rs ~= nil or connection.error ~= 0 then return connection:check_error(rs, shown or text) end
   without_rows = text
   return nothing
end

function Statement:execute()
   local connection = self.connection
   local rs = execute(connection, self.number, self.parameters, self.count)
   return result_of(connection, rs, self.text, "<prepared statement>")
end

function Statement:next_result()
   local connection = self.connection
   local rs = next_result(connection)
   return result_of(connection, rs, self.text, "<prepared statement>")
end

-- The number of a closed statement may be that of another one.
function Statement:close()
   if self.number >= 0 then
      ffi.gc(self.handle, nil)
      close(context, self.connection, self.number)
      self.number = -1
   end
   return 0
end

local Result = {}
Result.__index = Result
Result.__tostring = function() return "<sql_result>" end

function Result:fetch_row()
   if fetch(self) == 0 then return nil end
   local row, values = {}, self.values
   for i = 0, self.nfields - 1 do
      local value = values[i]
      if value.start ~= nil then row[i + 1] = ffi.string(value.start, value.length) end
   end
   return row
end

function Result:fetch_all()
   local rows = {}
   for i = 1, self.nrows do
      local row = self:fetch_row()
      if row == nil then break end
      rows[i] = row
   end
   return rows
end

function Result:free() return assert(free_result(self) == 0, "db_free_results() failed") end

ffi.metatype("bakeoff_result", Result)

local Connection = {}

-- The place in the script: that of the first function outside of this file, or of a `pcall(con.query, ...)`.
local function place()
   local level, at = 2, nil
   repeat
      level = level + 1
      at = debug.getinfo(level, "Sl")
   until at == nil or at.source ~= "=bakeoff"
   if at and at.currentline < 0 and level == 3 then at = debug.getinfo(4, "Sl") end
   return at and at.currentline > 0 and string.format("%s:%d: ", at.short_src, at.currentline) or ""
end

local Nothing = {}
function Nothing.fetch_row() return nil end
function Nothing.free() return assert(false, "db_free_results() failed") end

ffi.metatype("bakeoff_nothing", {
   __index = function(_, name)
      if Nothing[name] then return Nothing[name] end
      local kind = string.match(without_rows, "^%s*(%a+)")
      kind = kind and string.upper(kind) or "the statement"
      error(string.format("%sno `%s`: %s returns no rows", place(), tostring(name), kind), 0)
   end,
   __tostring = Result.__tostring,
})
nothing = ffi.cast("bakeoff_nothing *", nil)

function Connection:check_error(rs, text)
   if rs ~= nil or self.error == 0 then return rs end
   if self.sql_state == nil or self.sql_errmsg == nil then error(place() .. "SQL API error", 0) end
   local description = {
      connection = self,
      query = text,
      sql_errno = self.sql_errno,
      sql_state = ffi.string(self.sql_state),
      sql_errmsg = ffi.string(self.sql_errmsg),
   }
   local ignores = sysbench.hooks.sql_error_ignorable
   if self.error == sql.error.IGNORABLE or
      (type(ignores) == "function" and ignores(description))
   then
      description.errcode = sysbench.error.RESTART_EVENT
      description.place = place()
      error(description, 0)
   end
   error(string.format("%sSQL error, errno = %d, state = '%s': %s", place(), description.sql_errno,
      description.sql_state, description.sql_errmsg), 0)
end

function Connection:query(text)
   local rs = query(self, text, #text)
   return result_of(self, rs, text)
end

function Connection:query_row(text)
   local rs = self:query(text)
   if rs == nil or rs.nrows == 0 then return nil end
   return unpack(rs:fetch_row(), 1, rs.nfields)
end

function Connection:disconnect() return assert(disconnect(self) == 0) end
function Connection:more_results() return more_results(self) ~= 0 end

function Connection:reconnect()
   if reconnect(self) ~= 0 then self:check_error(nil, "<reconnect>") end
   return true
end

function Connection:next_result()
   local rs = next_result(self)
   return result_of(self, rs, "")
end

function Connection:prepare(text)
   local number = prepare(self, text, #text)
   if number < 0 then
      self:check_error(nil, text)
      return nil
   end
   -- A statement that the script forgets is closed with its handle.
   local handle = ffi.gc(new_handle(number), function(handle) close(context, self, handle.number) end)
   return setmetatable({ connection = self, number = number, handle = handle, count = 0, text = text }, Statement)
end

function Connection:bulk_insert_init(text)
   if bulk_init(self, text, #text) ~= 0 then self:check_error(nil, text) end
   return true
end

function Connection:bulk_insert_next(text)
   local outcome = bulk_next(self, text, #text)
   if outcome == 2 then
      alert("attempt to call bulk_insert_next() before bulk_insert_init()")
      error("db_bulk_insert_next() failed", 2)
   end
   if outcome ~= 0 then self:check_error(nil, "<bulk insert>") end
   return true
end

function Connection:bulk_insert_done()
   if bulk_done(self) ~= 0 then self:check_error(nil, "<bulk insert>") end
   return true
end

ffi.metatype("bakeoff_connection", {
   __index = Connection,
   __tostring = function() return "<sql_connection>" end,
})

local Driver = {}
Driver.__index = Driver
Driver.__tostring = function() return "<sql_driver>" end

function Driver:name() return facts.driver end

function Driver:connect()
   local connection = connect(context)
   if connection == nil then error("connection creation failed", 2) end
   return ffi.gc(connection, free_connection)
end

function sql.driver(name)
   if facts.driver == nil then error(facts.no_driver, 2) end
   if name ~= nil and name ~= facts.driver then
      io.stderr:write("FATAL: invalid database driver name: '", tostring(name), "'\n")
      error("failed to initialize the DB driver", 2)
   end
   return setmetatable({}, Driver)
end

-- Functions of older versions: one connection, which they keep themselves.
do
   local own
   function db_connect() own = sql.driver():connect() end
   function db_disconnect() own:disconnect() end
   function db_query(text) return own:query(text) end
   function db_bulk_insert_init(text) return own:bulk_insert_init(text) end
   function db_bulk_insert_next(text) return own:bulk_insert_next(text) end
   function db_bulk_insert_done() return own:bulk_insert_done() end
   db_driver, thread_id, test = facts.driver, facts.tid, facts.script
   DB_ERROR_NONE, DB_ERROR_RESTART_TRANSACTION, DB_ERROR_FAILED = 0, 1, 2
   mysql_table_engine, myisam_max_rows = "innodb", 1000000
end

-- Scripts call some functions of sysbench's program by name.
do
   local program = ffi.C
   local own = {
      sb_counter_inc = function(_, counter) count(context, tonumber(counter)) end,
      sb_rand_default = sb_rand, sb_rand_uniform = sb_rand_uniform, sb_rand_gaussian = sb_rand_gaussian,
      sb_rand_special = sb_rand_special, sb_rand_pareto = sb_rand_pareto, sb_rand_zipfian = sb_rand_zipfian,
      sb_rand_unique = sysbench.rand.unique, sb_rand_uniform_double = sysbench.rand.uniform_double,
      sb_rand_uniform_uint64 = sysbench.rand.uniform_uint64,
      sb_more_events = coroutine.yield, sb_event_start = function() end, sb_event_stop = function() end,
   }
   ffi.C = setmetatable({}, {
      __index = function(_, name) return own[name] or program[name] end,
      __newindex = function(_, name, value) program[name] = value end,
   })
end

-- Histograms: slots of equal width on the scale of the logarithm.

local Histogram = {}
Histogram.__index = Histogram
Histogram.__tostring = function() return "<sb_histogram>" end

function sysbench.histogram.new(size, from, to)
   assert(size > 1 and from > 0 and to > from, "a histogram needs at least 2 slots and a range over 0")
   local slots = { counts = {}, size = size, from = math.log(from) }
   slots.per_slot = (math.log(to) - slots.from) / (size - 1)
   return setmetatable(slots, Histogram)
end

function Histogram:update(value)
   local slot = 0
   if value > 0 then
      slot = math.floor((math.log(value) - self.from) / self.per_slot + 0.5)
      slot = math.max(0, math.min(slot, self.size - 1))
   end
   self.counts[slot] = (self.counts[slot] or 0) + 1
end

function Histogram:print()
   local most = 0
   for _, n in pairs(self.counts) do most = math.max(most, n) end
   if most == 0 then return end
   print("       value  ------------- distribution ------------- count")
   for slot = 0, self.size - 1 do
      local n = self.counts[slot]
      if n then
         local bar = string.rep("*", math.floor(n * 40 / most + 0.5))
         print(string.format("%12.3f |%-40s %d", math.exp(slot * self.per_slot + self.from), bar, n))
      end
   end
end

-- Reports

local function per_second(stat)
   local seconds = stat.time_interval
   local rates = {}
   for _, name in ipairs({"events", "reads", "writes", "other", "errors", "reconnects"}) do
      rates[name] = stat[name] / seconds
   end
   rates.queries = rates.reads + rates.writes + rates.other
   return rates
end

function sysbench.report_default(stat)
   local r = per_second(stat)
   print(string.format("[ %.0fs ] thds: %u tps: %4.2f qps: %4.2f (r/w/o: %4.2f/%4.2f/%4.2f) lat (ms,%u%%): %4.2f"
      .. " err/s %4.2f reconn/s: %4.2f", stat.time_total, stat.threads_running, r.events, r.queries, r.reads,
      r.writes, r.other, sysbench.opt.percentile, stat.latency_pct * 1000, r.errors, r.reconnects))
end

function sysbench.report_csv(stat)
   local r = per_second(stat)
   print(string.format("%.0f,%u,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f,%4.2f", stat.time_total,
      stat.threads_running, r.events, r.queries, r.reads, r.writes, r.other, stat.latency_pct * 1000, r.errors,
      r.reconnects))
end

local is_list_open = false

local function close_list()
   if is_list_open then io.write("\n]\n") end
   is_list_open = false
end

function sysbench.report_json(stat)
   io.write(is_list_open and ",\n" or "[\n")
   is_list_open = true
   local r = per_second(stat)
   local lines = {
      "  {",
      string.format('    "time": %4.0f,', stat.time_total),
      string.format('    "threads": %u,', stat.threads_running),
      string.format('    "tps": %4.2f,', r.events),
      '    "qps": {',
      string.format('      "total": %4.2f,', r.queries),
      string.format('      "reads": %4.2f,', r.reads),
      string.format('      "writes": %4.2f,', r.writes),
      string.format('      "other": %4.2f', r.other),
      "    },",
      string.format('    "latency": %4.2f,', stat.latency_pct * 1000),
      string.format('    "errors": %4.2f,', r.errors),
      string.format('    "reconnects": %4.2f', r.reconnects),
      "  }",
   }
   io.write(table.concat(lines, "\n"))
end

-- Options and commands

local cmdline = sysbench.cmdline
cmdline.ARG_NULL, cmdline.ARG_BOOL, cmdline.ARG_INT, cmdline.ARG_SIZE, cmdline.ARG_DOUBLE = 0, 1, 2, 3, 4
cmdline.ARG_STRING, cmdline.ARG_LIST, cmdline.ARG_FILE, cmdline.ARG_MAX = 5, 6, 7, 8
cmdline.PARALLEL_COMMAND = true

local type_of_default = {
   boolean = cmdline.ARG_BOOL, string = cmdline.ARG_STRING, number = cmdline.ARG_DOUBLE, table = cmdline.ARG_LIST,
}

local function default_text(default)
   if default == nil then return nil end
   if type(default) == "boolean" then return default and "on" or "off" end
   if type(default) == "table" then return table.concat(default, ",") end
   return tostring(default)
end

-- The declared options, in the order of their names.
local function declared()
   local options = {}
   if cmdline.options == nil then return options end
   assert(type(cmdline.options) == "table", "wrong type for sysbench.cmdline.options: " .. type(cmdline.options))
   for name, definition in pairs(cmdline.options) do
      assert(type(name) == "string" and type(definition) == "table",
         "wrong table structure in sysbench.cmdline.options")
      local text, default, kind = definition[1], definition[2], definition[3]
      assert(text ~= nil, "nil description for option " .. name)
      if kind == nil then
         kind = default == nil and cmdline.ARG_STRING or type_of_default[type(default)]
      end
      assert(kind ~= nil, "cannot determine type for option " .. name)
      options[#options + 1] =
         { name = name, text = tostring(text), kind = kind, default = default_text(default) }
   end
   table.sort(options, function(a, b) return a.name < b.name end)
   return options
end

local forms = {
   [cmdline.ARG_BOOL] = "[=on|off]", [cmdline.ARG_INT] = "=N", [cmdline.ARG_SIZE] = "=SIZE",
   [cmdline.ARG_DOUBLE] = "=N", [cmdline.ARG_STRING] = "=STRING", [cmdline.ARG_LIST] = "=[LIST,...]",
   [cmdline.ARG_FILE] = "=FILE",
}

function cmdline.print_test_options()
   local options, width = declared(), 0
   for _, option in ipairs(options) do
      option.form = option.name .. (forms[option.kind] or "")
      width = math.max(width, #option.form)
   end
   for _, option in ipairs(options) do
      local default = option.default and " [" .. option.default .. "]" or ""
      print("  --" .. option.form .. string.rep(" ", width - #option.form) .. " " .. option.text .. default)
   end
   print("")
end

function cmdline.read_cmdline_options() return true end

function cmdline.command_defined(name)
   local commands = cmdline.commands
   return type(commands) == "table" and type(commands[name]) == "table" and commands[name][1] ~= nil
end

function cmdline.command_parallel(name)
   return cmdline.command_defined(name) and cmdline.commands[name][2] == cmdline.PARALLEL_COMMAND
end

function cmdline.call_command(name)
   if not cmdline.command_defined(name) then return false end
   local outcome = cmdline.commands[name][1]()
   return outcome == nil or (outcome and true or false)
end

-- What the program calls

-- Terminals do not get tabs from texts of others.
local function spaced(traceback) return (traceback:gsub("\t", "  ")) end

local function with_place(problem)
   if type(problem) == "table" then return problem end
   return spaced(debug.traceback(tostring(problem), 2))
end

local function text_of(problem)
   if type(problem) == "table" and problem.sql_errmsg then
      return string.format("%sSQL error, errno = %d, state = '%s': %s", problem.place or "", problem.sql_errno,
         problem.sql_state, problem.sql_errmsg)
   end
   if type(problem) == "table" and problem.errcode == sysbench.error.RESTART_EVENT then
      return "the script begins its event again (RESTART_EVENT)"
   end
   return tostring(problem)
end

local restarted

local function restart()
   local hook = sysbench.hooks.before_restart_event
   if hook == nil or restarted == nil then return nil end
   local is_well, problem = xpcall(hook, with_place, restarted)
   if is_well then restarted = nil end
   return not is_well and text_of(problem) or nil
end

local OVER, STOP, RESTART, FAILED = 0, 1, 2, 3

local calls = { declared = declared, restart = restart, close = close_list }

-- A script may have its own loop over the events. It is a coroutine, which waits when it asks for the next event.
local loop

-- Returns whether it went well, and the error or whether the loop has ended.
local function continue_loop(answer)
   local is_well, problem = coroutine.resume(loop, answer)
   if is_well then return true, coroutine.status(loop) == "dead" end
   if type(problem) ~= "table" then problem = spaced(debug.traceback(loop, tostring(problem))) end
   loop = nil
   return false, problem
end

local function event_of_loop(thread_run, thread)
   if loop == nil then
      loop = coroutine.create(thread_run)
      local is_well, outcome = continue_loop(thread)
      if not is_well or outcome then return is_well, outcome end
   end
   return continue_loop(true)
end

local function end_loop()
   if loop == nil or coroutine.status(loop) == "dead" then return nil end
   local is_well, problem = continue_loop(false)
   return not is_well and problem or nil
end

function calls.event(thread)
   restarted = nil
   local thread_run, is_well, outcome = rawget(_G, "thread_run"), nil, nil
   if thread_run then
      is_well, outcome = event_of_loop(thread_run, thread)
   else
      is_well, outcome = xpcall(event, with_place, thread)
   end
   if is_well then return outcome and STOP or OVER end
   if type(outcome) == "table" and outcome.errcode == sysbench.error.RESTART_EVENT then
      restarted = outcome
      return RESTART, text_of(outcome)
   end
   return FAILED, text_of(outcome)
end

function calls.call(name, ...)
   local problem = name == "thread_done" and end_loop()
   if problem then return text_of(problem) end
   local of = _G[name]
   if of == nil then return nil end
   local is_well, problem = xpcall(of, with_place, ...)
   return not is_well and text_of(problem) or nil
end

function calls.load(text, name)
   local body, problem = loadstring(text, name)
   if body == nil then return "syntax", tostring(problem) end
   local is_well, why = xpcall(body, with_place)
   if not is_well then
      if unshown and unshown:seek("set") then io.stderr:write(unshown:read("*a") or "") end
      return "error", text_of(why)
   end
   return "loaded"
end

function calls.defines(name) return type(_G[name]) == "function" end

function calls.options(values)
   sysbench.opt = values
   for name, value in pairs(values) do
      if rawget(_G, name) == nil then rawset(_G, name, value) end
   end
end

-- A name of a command: defined in `sysbench.cmdline.commands` ("serial", "parallel"), as a function ("function"), or
-- not at all.
function calls.command_kind(name)
   if cmdline.command_parallel(name) then return "parallel" end
   if cmdline.command_defined(name) then return "serial" end
   if name == "help" and type(cmdline.options) == "table" then return "function" end
   local is_usual = name == "prepare" or name == "cleanup" or name == "help"
   if is_usual and type(_G[name]) == "function" then return "function" end
   return nil
end

function calls.command(name)
   local run = function()
      if cmdline.command_defined(name) then return cmdline.call_command(name) end
      if _G[name] == nil then
         print(facts.script:match("[^/]*$") .. " options:")
         cmdline.print_test_options()
      else
         _G[name]()
      end
      return true
   end
   local is_well, outcome = xpcall(run, with_place)
   if not is_well then return text_of(outcome) end
   return not outcome and "the command returned false" or nil
end

function calls.commands()
   local names = {}
   for name in pairs(type(cmdline.commands) == "table" and cmdline.commands or {}) do
      if cmdline.command_defined(name) then names[#names + 1] = name end
   end
   for _, name in ipairs({"prepare", "cleanup", "help"}) do
      if type(_G[name]) == "function" and not cmdline.command_defined(name) then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

function calls.hooked(name) return type(sysbench.hooks[name]) == "function" end

function calls.hook(name, stat)
   -- In sysbench, another state has this hook, and a list of its own.
   if name == "report_cumulative" then close_list() end
   local is_well, problem = xpcall(sysbench.hooks[name], with_place, stat)
   return not is_well and text_of(problem) or nil
end

-- The files that `require`, `dofile` and `loadfile` read, for the record of the run. A run has the recorded texts instead.
do
   local known, files, is_listed = facts.modules, {}, {}
   local load_file = loadfile

   -- The path of a recorded file: that one, or the only one with the same end, since the record may have another folder.
   local function recorded(path, ending)
      if known[path] then return path end
      local found
      for name in pairs(known) do
         if name == ending or name:sub(-#ending - 1) == "/" .. ending then
            if found then return nil end
            found = name
         end
      end
      return found
   end

   local function list(path)
      if is_listed[path] then return end
      is_listed[path] = true
      files[#files + 1] = path
   end

   local function load_path(path)
      list(path)
      if known then return loadstring(known[path], "@" .. path) end
      return load_file(path)
   end

   -- The reason why a form of a search path does not lead to a module; nil if it does.
   local function lack(form, path)
      local file = io.open(path, "r")
      if file == nil then return "no file '" .. path .. "'" end
      file:close()
      -- The user has named the forms of LUA_PATH.
      if facts.named[form] or not facts.is_planted(path) then return nil end
      return "'" .. path .. "' is left out: another user can change it"
   end

   local function find(name)
      local file, tried = name:gsub("%.", "/"), {}
      for form in package.path:gmatch("[^;]+") do
         local path = form:gsub("?", function() return file end)
         local problem
         if known then problem = not known[path] and "no file '" .. path .. "'" or nil else problem = lack(form, path) end
         if problem == nil then return path end
         tried[#tried + 1] = "\n\t" .. problem
      end
      local path = known and (recorded(file .. ".lua", file .. ".lua") or recorded(file .. "/init.lua", file .. "/init.lua"))
      return path, table.concat(tried)
   end

   package.loaders[2] = function(name)
      local path, tried = find(name)
      if path == nil and known then error("module '" .. name .. "' is not recorded: " .. facts.otherwise, 0) end
      if path == nil then return tried end
      local body, problem = load_path(path)
      if body == nil then error("error loading module '" .. name .. "' from file '" .. path .. "':\n\t" .. problem, 0) end
      return body
   end

   if known then
      -- Native modules have no text that a record could hold.
      package.loaders[3], package.loaders[4], package.loadlib = nil, nil, nil
   else
      -- The two loaders of native modules search the forms that lead to no file of another user.
      for number = 3, 4 do
         local load = package.loaders[number]
         package.loaders[number] = function(name)
            if number == 4 and not name:find(".", 1, true) then return nil end
            local file = (number == 4 and name:match("^[^.]*") or name):gsub("%.", "/")
            local forms, kept, tried = package.cpath, {}, {}
            for form in forms:gmatch("[^;]+") do
               local problem = lack(form, (form:gsub("?", function() return file end)))
               tried[#tried + 1] = problem and "\n\t" .. problem
               kept[#kept + 1] = not problem and form or nil
            end
            if #kept == 0 then return table.concat(tried) end
            package.cpath = table.concat(kept, ";")
            local is_well, body = pcall(load, name)
            package.cpath = forms
            if not is_well then error(body, 0) end
            return body
         end
      end
   end

   function loadfile(path)
      if not known then
         if path == nil then return load_file() end
         return load_path(path)
      end
      local found = path and recorded(path, path:match("[^/]*$"))
      if found == nil then return nil, tostring(path) .. " is not recorded: " .. facts.otherwise end
      return load_path(found)
   end

   function dofile(path)
      local body, problem = loadfile(path)
      if body == nil then error(problem, 0) end
      return body()
   end

   -- Lists the modules that functions of a text load later, as far as the text has their names.
   local function list_later(text, is_searched)
      for name in text:gmatch("%f[%w_]require%s*%(?%s*[\"']([%w_./-]+)[\"']") do
         local path = find(name)
         if path and not is_searched[path] then
            is_searched[path] = true
            list(path)
            local file = io.open(path, "r")
            if file then
               list_later(file:read("*a"), is_searched)
               file:close()
            end
         end
      end
   end

   function calls.files(text)
      if not known then list_later(text, {}) end
      return files
   end
end

return calls
