#!/usr/bin/env sysbench
-- Money goes from one account to another; the sum stays the same, however many transfers conflict.

if sysbench.cmdline.command == nil then
   error("a command is required: prepare, audit, run, cleanup")
end

sysbench.cmdline.options = {
   accounts = {"Accounts", 100},
   balance = {"Balance of each account at the beginning", 1000},
   ["crash-every"] = {"Transfers after which one breaks off in its middle, by a duplicate key; 0 for none", 0},
   report = {"File for the lines of the hooks", ""},
   sorted = {"Lock accounts in their order, so that none deadlocks", true},
}

local function note(...)
   if sysbench.opt.report == "" then return end
   local file = assert(io.open(sysbench.opt.report, "a"))
   file:write(table.concat({...}, " "), "\n")
   file:close()
end

function cmd_prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
   con:query("CREATE TABLE transfer (id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, receiver INTEGER NOT NULL, note VARCHAR(20))")
   con:bulk_insert_init("INSERT INTO account VALUES")
   for id = 1, sysbench.opt.accounts do
      con:bulk_insert_next(string.format("(%d, %d)", id, sysbench.opt.balance))
   end
   con:bulk_insert_done()
   con:query("INSERT INTO transfer VALUES (0, 0, 0, NULL)")
end

function cmd_audit()
   local con = sysbench.sql.driver():connect()
   local sum = con:query_row("SELECT SUM(balance) FROM account")
   print(string.format("thread %d of %d: %d in all", sysbench.tid, sysbench.opt.threads, sum))
   assert(tonumber(sum) == sysbench.opt.accounts * sysbench.opt.balance, "money was made or lost")
end

sysbench.cmdline.commands = {
   prepare = { cmd_prepare },
   audit = { cmd_audit, sysbench.cmdline.PARALLEL_COMMAND },
}

function cleanup()
   local con = sysbench.sql.driver():connect()
   con:query("DROP TABLE IF EXISTS account")
   con:query("DROP TABLE IF EXISTS transfer")
end

function init() note("init") end
function done() note("done") end

function thread_init(thread)
   note("thread_init", thread, sysbench.tid)
   drv = sysbench.sql.driver()
   con = drv:connect()
   move = con:prepare("UPDATE account SET balance = balance + ? WHERE id = ?")
   amount = move:bind_create(sysbench.sql.type.INT)
   id = move:bind_create(sysbench.sql.type.INT)
   move:bind_param(amount, id)
   write = con:prepare("INSERT INTO transfer (id, sender, receiver, note) VALUES (?, ?, ?, ?)")
   params = {}
   for i = 1, 3 do params[i] = write:bind_create(sysbench.sql.type.BIGINT) end
   params[4] = write:bind_create(sysbench.sql.type.VARCHAR, 20)
   write:bind_param(unpack(params))
   transfers = 0
end

function event(thread)
   transfers = transfers + 1
   local from = sysbench.rand.uniform(1, sysbench.opt.accounts)
   local to = sysbench.rand.uniform(1, sysbench.opt.accounts)
   if sysbench.opt.sorted and from > to then from, to = to, from end
   con:query("BEGIN")
   local balance = con:query_row("SELECT balance FROM account WHERE id = " .. from)
   assert(balance ~= nil, "the account exists")
   amount:set(-7)
   id:set(from)
   move:execute()
   local key = sysbench.rand.unique() - 2147483648
   if sysbench.opt.crash_every > 0 and transfers % sysbench.opt.crash_every == 0 then key = 0 end
   amount:set(7)
   id:set(to)
   params[1]:set(key)
   params[2]:set(from)
   params[3]:set(to)
   params[4]:set_rand_str("@@@@-####")
   write:execute()
   move:execute()
   con:query("COMMIT")
end

function thread_done(thread)
   note("thread_done", thread, transfers)
   con:disconnect()
end

function sysbench.hooks.before_restart_event(problem)
   note("restart", problem.sql_errno, problem.sql_state)
end

function sysbench.hooks.report_intermediate(stat)
   note("interval", stat.time_total, stat.events, stat.reads, stat.writes, stat.other, stat.latency_pct)
end

function sysbench.hooks.report_cumulative(stat)
   note("whole", stat.events, stat.reads, stat.writes, stat.other, stat.errors, stat.reconnects)
end
