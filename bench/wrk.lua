-- tools/call with an id of its own for each request, over several sessions in turn.
-- Arguments: the first id, what follows the id, and what precedes it, once for each session.
local id, tail, heads

function init(args)
   id, tail, heads = tonumber(args[1]), args[2], {}
   for n = 3, #args do
      heads[n - 2] = args[n]
   end
end

function request()
   id = id + 1
   return heads[id % #heads + 1] .. id .. tail
end

function done(summary, latency)
   local errors = summary.errors
   local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
   io.write(string.format(
      '{"requests": %d, "bytes": %d, "seconds": %f, "failed": %d, "p99": %f}\n',
      summary.requests, summary.bytes, summary.duration / 1e6, failed, latency:percentile(99) / 1e6))
end
