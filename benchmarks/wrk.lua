-- Requests from a file (each its length, a newline, and its bytes), in turn; the figures of the run as one line of JSON.
local file = assert(io.open(os.getenv("BENCH_REQUESTS"), "rb"))
local all = file:read("*a")
file:close()

local requests = {}
local at = 1
while at <= #all do
  local line_end = all:find("\n", at, true)
  local length = tonumber(all:sub(at, line_end - 1))
  requests[#requests + 1] = all:sub(line_end + 1, line_end + length)
  at = line_end + length + 1
end

-- wrk asks for one before it starts, and sends none of that.
local count = -1

function request()
  count = count + 1
  return requests[(count - 1) % #requests + 1]
end

function done(summary, latency, _)
  io.write(string.format(
    'FIGURES {"answered": %d, "microseconds": %d, "refused": %d, "broken": %d, "p50": %d, "p99": %d}\n',
    summary.requests, summary.duration, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
