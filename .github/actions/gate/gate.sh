#!/usr/bin/env bash
# Judges $FILES against $BASE with the program given, and comments unless $COMMENT is "false" or the pull request is from a $FORK.
# Leaves with the gate's exit code, or with that of the comment where the gate passes.
set -uo pipefail
shopt -s dotglob globstar nullglob
IFS=$'\n'
files=($FILES) # a pattern a line: expanded as file names, and as nothing else
terms=(--base-ref "$BASE")
if [ -n "$POLICY" ]; then terms+=(--policy "$POLICY"); fi
outputs=(--output "summary=$GITHUB_STEP_SUMMARY")
if [ -n "$SARIF" ]; then outputs+=(--output "sarif=$SARIF"); fi

"$1" gate "${terms[@]}" --format github "${outputs[@]}" -- "${files[@]}"
code=$?

if [ "$COMMENT" != false ] && [ "$FORK" != true ]; then
  "$1" comment github "${terms[@]}" -- "${files[@]}"
  said=$?
  if [ "$code" = 0 ]; then code=$said; fi
fi
exit "$code"
