#!/usr/bin/env bash
# The baseline of scripts/bench: a watcher as one writes it in shell. It pokes, keeps the answer, takes its
# fields out with one jq each, compares the branch, pushes, and says so in a log. No waiting, no other user.
# usage: bench_loop.sh PROJECT AGENT POKES FOLDER
set -u
project=$1 agent=$2 pokes=$3 folder=$4
answer=$folder/answer.json log=$folder/loop.log history=$folder/history.jsonl session=''
prompt='Work on one eligible task, commit, and stop. If none is left, answer ALL-TASKS-DONE.'

say() { echo "$(date '+%Y-%m-%d %H:%M:%S') $*" | tee -a "$log" >/dev/null; }
tip() { git -C "$project" rev-parse --verify --quiet HEAD; }

if command -v jq >/dev/null; then
  field() { jq -r ".$1" "$answer"; }
else
  field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$answer" | head -n 1; }
fi

for ((poke = 1; poke <= pokes; poke++)); do
  say "poke $poke begins, session ${session:-new}"
  before=$(tip)
  timeout 600 "$agent" -p "$prompt" ${session:+--resume "$session"} --max-turns 12 --output-format json \
    </dev/null >"$answer" 2>"$folder/errors"
  code=$?
  cat "$answer" >>"$history"
  subtype=$(field subtype)
  failed=$(field is_error)
  session=$(field session_id)
  said=$(field result)
  say "poke $poke: exit $code, $subtype, error $failed, session $session, ${said:0:80}"
  if [ "$failed" = true ] && grep -qiE '(usage|session|rate) limit' <<<"$said"; then
    say "limit: would wait"
  elif grep -q ALL-TASKS-DONE <<<"$said"; then
    say "done"
    exit 0
  elif [ "$(tip)" != "$before" ]; then
    if git -C "$project" push --quiet origin main 2>>"$folder/errors"; then say "published"; else say "push failed"; fi
  else
    say "no new revision"
  fi
done
