-- What a script reads and binds, compared within the script: an event that fails shows what differs.

local function same(found, expected, what)
   if found ~= expected then
      error(string.format("%s: found %s, expected %s", what, tostring(found), tostring(expected)), 2)
   end
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   is_mysql = drv:name() == "mysql"
end

local function rows_and_nulls()
   con:query("DROP TABLE IF EXISTS v")
   con:query("CREATE TABLE v (a INTEGER, b VARCHAR(120), c DECIMAL(10,2))")
   con:query("INSERT INTO v VALUES (1, 'foo', 0.40), (NULL, 'it''s', NULL), (-3, NULL, 12345.67)")
   local rs = con:query("SELECT a, b, c FROM v ORDER BY c")
   same(rs.nrows, 3, "rows")
   same(rs.nfields, 3, "fields")
   local found = {}
   for _, row in ipairs(rs:fetch_all()) do
      found[#found + 1] = string.format("%s|%s|%s", tostring(row[1]), tostring(row[2]), tostring(row[3]))
   end
   table.sort(found)
   same(table.concat(found, " "), "-3|nil|12345.67 1|foo|0.40 nil|it's|nil", "values")
   same(rs:fetch_row(), nil, "after the last row")
   local none = con:query("SELECT a FROM v WHERE a = 99")
   same(none.nrows, 0, "no rows")
   same(con:query_row("SELECT a FROM v WHERE a = 99"), nil, "no row")
   same(con:query("UPDATE v SET a = 5 WHERE a IS NULL") == nil, true, "a statement without rows")
end

local function parameters()
   local insert = con:prepare("INSERT INTO v (a, b, c) VALUES (?, ?, ?)")
   local a = insert:bind_create(sysbench.sql.type.INT)
   local b = insert:bind_create(sysbench.sql.type.CHAR, 8)
   local c = insert:bind_create(sysbench.sql.type.DOUBLE)
   insert:bind_param(a, b, c)
   a:set(1000)
   b:set("longer than eight")
   c:set(0.25)
   insert:execute()
   b:set(nil)
   a:set(-7)
   insert:execute()
   b:set("a'b\\c?")
   insert:execute()
   insert:close()
   local select = con:prepare("SELECT b, c, a FROM v WHERE a = ? ORDER BY b")
   local key = select:bind_create(sysbench.sql.type.BIGINT)
   select:bind_param(key)
   key:set(1000)
   local rs = select:execute()
   same(rs.nrows, 1, "rows of a prepared statement")
   local row = rs:fetch_row()
   same(row[1], "longer t", "a text is cut to its length")
   same(tonumber(row[2]), 0.25, "a number with a fraction")
   same(row[3], "1000", "a whole number")
   key:set(-7)
   rs = select:execute()
   same(rs.nrows, 2, "rows of the next execution")
   local texts = {}
   for _, row in ipairs(rs:fetch_all()) do texts[#texts + 1] = tostring(row[1]) end
   table.sort(texts)
   same(texts[1], "a'b\\c?", "a text with quotes")
   same(texts[2], "nil", "NULL")
   select:close()
   local next = con:prepare("SELECT 7")
   -- The number of the closed statement is now that of the next one.
   select:close()
   same(pcall(select.execute, select), false, "a closed statement")
   same(next:execute():fetch_row()[1], "7", "the statement after it")
   next:close()
   local many, marks, values = {}, {}, {}
   for i = 1, 100 do marks[i] = "?" end
   -- In a list, the server knows the type of each.
   local statement = con:prepare("SELECT COUNT(*) FROM v WHERE a IN (" .. table.concat(marks, ", ") .. ")")
   for i = 1, 100 do
      many[i] = statement:bind_create(sysbench.sql.type.INT)
      many[i]:set(i == 100 and 1000 or i + 5000)
   end
   statement:bind_param(unpack(many))
   same(statement:execute():fetch_row()[1], "1", "a hundred parameters")
   statement:close()
end

local function long_values()
   local long = string.rep("x", 3 * 1024 * 1024)
   same(#con:query_row("SELECT '" .. long .. "'"), #long, "a long value")
   con:query("DROP TABLE IF EXISTS w")
   con:query("CREATE TABLE w (a INTEGER, b VARCHAR(500))")
   con:bulk_insert_init("INSERT INTO w VALUES")
   for i = 1, 5000 do con:bulk_insert_next(string.format("(%d, '%s')", i, string.rep("y", 400))) end
   con:bulk_insert_done()
   same(con:query_row("SELECT COUNT(DISTINCT a) FROM w"), "5000", "rows of a long insert")
   con:query("DROP TABLE w")
   if is_mysql then
      same(con:query_row("SELECT HEX(_binary'\xfe\xff')"), "FEFF", "a statement that is not UTF-8")
   end
end

local function errors()
   local is_well, problem = pcall(con.query, con, "SELECT * FROM missing_table")
   same(is_well, false, "a refused statement")
   same(problem:match("SQL error, errno = %d+, state = '42[SP]0[12]'") ~= nil, true, problem)
   same(con.sql_errno, is_mysql and 1146 or 0, "errno")
   for _, ask in ipairs({
      function () con:query("SELECT * FROM missing_table") end,
      function () con:query_row("SELECT * FROM missing_table") end,
      function () con:prepare("SELECT * FROM missing_table") end,
      function () con:bulk_insert_init("INSERT INTO missing_table VALUES") con:bulk_insert_next("(1)") con:bulk_insert_done() end,
   }) do
      local place = debug.getinfo(ask, "S")
      local text = select(2, pcall(ask))
      same(text:match("own%.lua:(%d+): SQL"), tostring(place.linedefined), "the line of an error: " .. text)
   end
   is_well, problem = pcall(con.prepare, con, "SELECT * FROM missing_table")
   same(is_well, false, "a statement that cannot be prepared")
   same(problem:match("SQL API error") ~= nil, true, problem)
   local other = drv:connect()
   other:disconnect()
   is_well, problem = pcall(other.query, other, "SELECT 1")
   same(is_well, false, "a closed connection")
   -- An error that the script ignores begins the event again, unless the script catches it.
   function sysbench.hooks.sql_error_ignorable(e) return e.sql_state:sub(1, 3) == "42S" or e.sql_state == "42P01" end
   is_well, problem = pcall(function () con:query("SELECT * FROM missing_table") end)
   same(type(problem), "table", "the description of an error")
   same(problem.errcode, sysbench.error.RESTART_EVENT, "its code")
   same(problem.query, "SELECT * FROM missing_table", "its statement")
   sysbench.hooks.sql_error_ignorable = nil
end

local function several_results()
   if not is_mysql then return end
   con:query("DROP PROCEDURE IF EXISTS two")
   con:query("CREATE PROCEDURE two (IN n INTEGER) BEGIN SELECT n, 'first'; DO 1; SELECT n + 1; END")
   local function all(rs, next)
      local rows = {}
      while rs ~= nil do
         rows[#rows + 1] = table.concat(rs:fetch_row(), ",")
         rs = next()
      end
      return table.concat(rows, " ")
   end
   local rs = con:query("CALL two(5)")
   same(con:more_results(), true, "more results")
   same(all(rs, function () return con:next_result() end), "5,first 6", "results of a text")
   local call = con:prepare("CALL two(?)")
   local n = call:bind_create(sysbench.sql.type.INT)
   call:bind_param(n)
   for i = 1, 3 do
      n:set(10 * i)
      same(all(call:execute(), function () return call:next_result() end), (10 * i) .. ",first " .. (10 * i + 1),
         "results of a prepared call")
   end
   same(con:query_row("SELECT 1"), "1", "after them")
end

local function reconnects()
   same(con:query_row("SELECT 2"), "2", "before")
   con:reconnect()
   same(con:query_row("SELECT 3"), "3", "after")
end

function event()
   rows_and_nulls()
   parameters()
   long_values()
   errors()
   several_results()
   reconnects()
   con:query("DROP TABLE v")
end

function thread_done() con:disconnect() end
