#!/bin/sh
# bench_agent.c for machines without a C compiler; the same variables mean the same.
[ -z "${BENCH_KILL-}" ] || kill -KILL "$PPID"
[ -z "${BENCH_NOTE-}" ] || sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$PPID/status" >>"$BENCH_NOTE"
if [ -n "${BENCH_COMMITS-}" ]; then
  used=0
  [ ! -e "$BENCH_AT" ] || read -r used <"$BENCH_AT"
  sed -n "$((used + 1))p" "$BENCH_COMMITS" >"$BENCH_REF.lock" && mv "$BENCH_REF.lock" "$BENCH_REF"
  echo $((used + 1)) >"$BENCH_AT"
fi
exec cat "$BENCH_ANSWER"
