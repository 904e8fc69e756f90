-- Any of sysbench's OLTP tests, with a log of each transaction as pgbench writes it, ended in order
-- when a file appears: sysbench itself gives one percentile, and is only ended by a signal.
require(os.getenv("PGSTOW_SYSBENCH_TEST"))

if sysbench.cmdline.command == "run" then
   local ffi = require("ffi")
   ffi.cdef [[
      typedef struct { int64_t seconds; int64_t nanoseconds; } pgstow_time;
      int clock_gettime(int clock, pgstow_time *time);
   ]]
   local REALTIME, MONOTONIC = 0, 1
   local time = ffi.new("pgstow_time")
   local prefix = os.getenv("PGSTOW_SYSBENCH_LOG")
   local log, thread, number, flushed_s, stopped

   local function microseconds()
      ffi.C.clock_gettime(MONOTONIC, time)
      return tonumber(time.seconds) * 1e6 + math.floor(tonumber(time.nanoseconds) / 1e3)
   end

   local function write(latency)
      ffi.C.clock_gettime(REALTIME, time)
      local end_s = tonumber(time.seconds)
      number = number + 1
      log:write(string.format("%d %d %s 0 %d %d\n", thread, number, latency, end_s,
                              math.floor(tonumber(time.nanoseconds) / 1e3)))
      if end_s ~= flushed_s then -- at most a second is lost where the program is killed
         log:flush()
         flushed_s = end_s
         local stop = io.open(prefix .. ".stop")
         stopped = stop ~= nil
         if stopped then stop:close() end
      end
   end

   local init, one, done = thread_init, event, thread_done

   function thread_init(thread_id)
      thread, number = thread_id or sysbench.tid, 0
      log = assert(io.open(prefix .. "." .. thread, "w"))
      log:setvbuf("full", 65536)
      init(thread_id)
   end

   function event(thread_id)
      local began_us = microseconds()
      local went, result = pcall(one, thread_id)
      if not went then
         write("failed")
         error(result, 0)
      end
      write(string.format("%d", microseconds() - began_us))
      return stopped or result -- what is true ends the thread
   end

   function thread_done(thread_id)
      log:close()
      done(thread_id)
   end
end
